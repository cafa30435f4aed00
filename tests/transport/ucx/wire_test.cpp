// Headers that a rank of the job sends are believed, all others are not.
#include "transport/peer_book.hpp"
#include "transport/ucx/wire.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace penstock::transport {

namespace {

const wire_rules rules{job_token{std::byte{1}, std::byte{2}}, 1, 4};

wire_header sound() {
  wire_header h;
  h.token = rules.token;
  h.kind = wire_kind::part;
  h.sender = 3;
  h.parts = 2;
  h.part = 0;
  h.part_bytes = 300;
  h.offset = 200;
  h.payload_bytes = 100;
  h.user_header_bytes = 5;
  h.is_announced = 1;
  return h;
}

std::string bytes_of(const wire_header& h, std::size_t user_header_bytes) {
  return std::string(reinterpret_cast<const char*>(&h), sizeof h) + std::string(user_header_bytes, 'u');
}

bool is_believed(const wire_header& h) {
  return believed(bytes_of(h, h.user_header_bytes), h.payload_bytes, rules).has_value();
}

TEST(Wire, ASoundHeaderIsReadAsWritten) {
  const auto h = believed(bytes_of(sound(), 5), 100, rules);
  ASSERT_TRUE(h);
  EXPECT_EQ(h->sender, 3u);
  EXPECT_EQ(h->parts, 2u);
  EXPECT_EQ(h->user_header_bytes, 5u);
}

TEST(Wire, EachBitOfTheTokenCounts) {
  for (std::size_t byte = 0; byte < rules.token.size(); ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      wire_header h = sound();
      h.token[byte] ^= std::byte{1} << bit;
      EXPECT_FALSE(is_believed(h)) << byte << " " << bit;
    }
  }
}

TEST(Wire, BytesThatAreCutShortOrTooManyAreNot) {
  const std::string whole = bytes_of(sound(), 5);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(believed(whole.substr(0, size), 100, rules)) << size;
  EXPECT_FALSE(believed(whole + "x", 100, rules));
  EXPECT_FALSE(believed(whole, 99, rules));
  EXPECT_FALSE(believed(whole, 0, rules));
}

TEST(Wire, OnlyOtherRanksOfTheJobSpeak) {
  for (const auto& [sender, is_peer] :
       {std::pair{0u, true}, {1u, false}, {2u, true}, {3u, true}, {4u, false}, {0x8000'0001u, false}, {~0u, false}}) {
    wire_header h = sound();
    h.sender = sender;
    EXPECT_EQ(is_believed(h), is_peer) << sender;
  }
}

TEST(Wire, PartsAreWhereTheyCanBe) {
  const auto with = [](auto change) {
    wire_header h = sound();
    change(h);
    return is_believed(h);
  };
  EXPECT_FALSE(with([](wire_header& h) { h.part = 1; })) << "the user's header comes with part 0";
  EXPECT_FALSE(with([](wire_header& h) { h.part = 2, h.is_announced = h.user_header_bytes = 0; })) << "one too many";
  EXPECT_TRUE(with([](wire_header& h) { h.part = 1, h.is_announced = h.user_header_bytes = 0; }));
  EXPECT_FALSE(with([](wire_header& h) { h.is_announced = 0; })) << "a user's header that announces nothing";
  EXPECT_FALSE(with([](wire_header& h) { h.is_announced = 2; }));
  EXPECT_FALSE(with([](wire_header& h) { h.parts = 0; })) << "bytes of no part";
  EXPECT_TRUE(with([](wire_header& h) { h.parts = 0, h.payload_bytes = h.part_bytes = h.offset = 0; }));
  EXPECT_FALSE(with([](wire_header& h) { h.parts = max_parts + 1; }));
  EXPECT_FALSE(with([](wire_header& h) { h.user_header_bytes = max_header_bytes + 1; }));
}

TEST(Wire, PiecesLieWithinTheirPart) {
  const auto at = [](std::uint64_t offset, std::uint64_t bytes, std::uint64_t of) {
    wire_header h = sound();
    h.offset = offset;
    h.payload_bytes = bytes;
    h.part_bytes = of;
    return is_believed(h);
  };
  EXPECT_TRUE(at(0, 100, 100));
  EXPECT_TRUE(at(200, 100, 300));
  EXPECT_FALSE(at(201, 100, 300));
  EXPECT_FALSE(at(0, 101, 100));
  EXPECT_FALSE(at(~std::uint64_t{0}, 100, 300)) << "whose end is no number";
  EXPECT_FALSE(at(~std::uint64_t{0} - 50, 100, 300)) << "whose end wraps around";
}

TEST(Wire, OtherKindsCarryWhatTheyShould) {
  wire_header h = sound();
  h.part_bytes = h.offset = 0;
  h.kind = wire_kind::announce;
  EXPECT_FALSE(is_believed(h)) << "its header is the payload";
  h.user_header_bytes = 0;
  h.is_announced = 0;
  EXPECT_TRUE(is_believed(h));
  h.payload_bytes = max_header_bytes + 1;
  EXPECT_FALSE(is_believed(h));
  h.payload_bytes = 0;
  for (const wire_kind greeting : {wire_kind::hello, wire_kind::welcome}) {
    h.kind = greeting;
    EXPECT_TRUE(is_believed(h));
  }
  h.payload_bytes = 1;
  EXPECT_FALSE(is_believed(h)) << "a greeting has nothing to bring";
  h.payload_bytes = 0;
  h.part_bytes = 1;
  EXPECT_FALSE(is_believed(h)) << "nor a part";
  h.part_bytes = 0;
  h.kind = static_cast<wire_kind>(77);
  EXPECT_FALSE(is_believed(h));
}

} // namespace

} // namespace penstock::transport
