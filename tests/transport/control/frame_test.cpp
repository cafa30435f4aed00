// Frames survive any cutting into pieces; anything that is none is refused before it costs memory.
#include "kernels/check.hpp"
#include "transport/control/frame.hpp"
#include "transport/control/hello.hpp"
#include "transport/control/verdict.hpp"
#include "transport/control/wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace penstock::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::initializer_list<frame_kind> all_kinds = {
    frame_kind::hello,   frame_kind::admitted, frame_kind::refused, frame_kind::welcome, frame_kind::blob,
    frame_kind::message, frame_kind::pulse,    frame_kind::failed,  frame_kind::lost,    frame_kind::suspect,
    frame_kind::leave,   frame_kind::all_left, frame_kind::ping,    frame_kind::pong,    frame_kind::too_early};

std::vector<frame> samples() {
  return {{.kind = frame_kind::message, .rank = 3, .name = "steps", .payload = std::string(1000, 'x')},
          {.kind = frame_kind::leave},
          {.kind = frame_kind::blob, .rank = 2, .name = std::string(max_name_bytes, 'n'), .payload = ""},
          {.kind = frame_kind::pong, .sent_ns = -5, .answered_ns = INT64_MAX},
          {.kind = frame_kind::failed, .rank = 1, .payload = std::string("a\0b", 3)}};
}

void expect_equal(const frame& a, const frame& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.sent_ns, b.sent_ns);
  EXPECT_EQ(a.answered_ns, b.answered_ns);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.payload, b.payload);
}

// A head by itself: the size of a body and a kind.
std::string head(std::uint32_t size, int kind) {
  std::string bytes;
  put(bytes, size);
  put(bytes, static_cast<std::uint8_t>(kind));
  return bytes;
}

TEST(Frame, AnyCuttingOfTheBytesGivesTheSameFrames) {
  std::string bytes;
  for (const auto& f : samples())
    bytes += encode(f);
  std::mt19937 random(1);
  for (std::size_t most : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{300}, bytes.size()}) {
    std::vector<frame> got;
    frame_reader reader(all_kinds);
    for (std::size_t at = 0; at < bytes.size();) {
      const auto n = std::min<std::size_t>(1 + random() % most, bytes.size() - at);
      reader.feed(std::string_view(bytes).substr(at, n), [&](frame f) { got.push_back(std::move(f)); });
      at += n;
    }
    const auto wanted = samples();
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_equal(got[i], wanted[i]);
  }
}

TEST(Frame, AHeadThatClaimsTooMuchIsRefusedAtOnce) {
  const auto refuse = [](const std::string& bytes) {
    frame_reader reader(all_kinds);
    reader.feed(bytes, [](const frame&) {});
  };
  EXPECT_THAT([&] { refuse(head(0xFFFFFFFF, static_cast<int>(frame_kind::message))); },
              ThrowsMessage<error>(HasSubstr("4294967295 bytes")));
  EXPECT_THROW(refuse(head(70'000, static_cast<int>(frame_kind::hello))), error);
  EXPECT_THROW(refuse(head(5'000, static_cast<int>(frame_kind::pulse))), error);
  EXPECT_THROW(refuse(head(3, static_cast<int>(frame_kind::leave))), error);
  EXPECT_THROW(refuse(head(100, 0)), error);
  EXPECT_THROW(refuse(head(100, frame_kinds + 1)), error);
  EXPECT_THROW(refuse(head(100, 255)), error);
}

TEST(Frame, OnlyAcceptableKindsPassAndThatCanChangeBetweenFrames) {
  frame_reader reader({frame_kind::hello});
  EXPECT_THROW(reader.feed(encode(frame{.kind = frame_kind::message, .name = "n"}), [](const frame&) {}), error);
  frame_reader next({frame_kind::hello});
  int came = 0;
  next.feed(encode(frame{.kind = frame_kind::hello}) + encode(frame{.kind = frame_kind::leave}), [&](const frame&) {
    ++came;
    next.accept({frame_kind::leave});
  });
  EXPECT_EQ(came, 2);
}

TEST(Frame, ANameLongerThanItsFrameIsRefused) {
  auto bytes = encode(frame{.kind = frame_kind::message, .name = "abc"});
  bytes[bytes.size() - 4] = 100; // the name's length
  frame_reader reader(all_kinds);
  EXPECT_THAT([&] { reader.feed(bytes, [](const frame&) {}); }, ThrowsMessage<error>(HasSubstr("ends early")));
}

// Whatever comes, the reader takes frames within the limits or throws error.
TEST(Frame, RandomBytesAndDamagedFramesDoNoHarm) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::string bytes;
    if (seed % 2 == 0) {
      bytes.resize(random() % 300);
      for (auto& c : bytes)
        c = static_cast<char>(random());
    } else {
      for (const auto& f : samples())
        bytes += encode(f);
      for (unsigned i = 0; i <= seed % 5; ++i)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      bytes.resize(bytes.size() - random() % 50);
    }
    frame_reader reader(all_kinds);
    try {
      reader.feed(bytes, [](const frame& f) {
        ASSERT_LE(f.payload.size(), payload_limit(f.kind));
        ASSERT_LE(f.name.size(), max_name_bytes);
      });
    } catch (const error&) {
    }
  }
}

TEST(Verdict, ComesThroughAsItWas) {
  const job_failure cause{.rank = 2, .lost = true, .text = "rank 2 is gone", .also_lost = {5, 17}};
  const auto came = failure_of(frame_of(cause));
  EXPECT_EQ(came.rank, 2);
  EXPECT_TRUE(came.lost);
  EXPECT_EQ(came.text, cause.text);
  EXPECT_EQ(came.also_lost, cause.also_lost);
  EXPECT_FALSE(failure_of(frame_of({.rank = 1, .text = "the disk is full"})).lost);
}

TEST(Verdict, NamesAsManyLostRanksAsFit) {
  job_failure cause{.rank = 1, .lost = true};
  for (int rank = 1000; rank < 2000; ++rank)
    cause.also_lost.push_back(rank);
  const auto came = failure_of(frame_of(cause)).also_lost;
  ASSERT_EQ(came.size(), 51U); // of five characters with the comma
  EXPECT_EQ(came.back(), 1050);
}

TEST(Verdict, LostRanksThatAreNoNumbersAreRefused) {
  for (const char* name : {"x", "1,", ",1", "1,,2", "1 2", "99999999999"})
    EXPECT_THROW(failure_of({.kind = frame_kind::lost, .rank = 1, .name = name}), error) << name;
}

TEST(Hello, ComesThroughAsItWas) {
  const hello h{.rank = 3,
                .size = 8,
                .generation = 2,
                .who = {.host = "n1", .host_identity = "boot/4026531840", .process = 4711},
                .facts = {{"binary", "abc"}, {"options", ""}}};
  const auto got = decode_hello(encode(h));
  EXPECT_EQ(got.rank, 3);
  EXPECT_EQ(got.size, 8);
  EXPECT_EQ(got.generation, 2);
  EXPECT_EQ(got.who.host, "n1");
  EXPECT_EQ(got.who.host_identity, "boot/4026531840");
  EXPECT_EQ(got.who.process, 4711);
  EXPECT_EQ(got.facts, h.facts);
}

TEST(Hello, TruncatedLongerOrRandomOnesAreRefused) {
  const auto whole = encode(hello{.rank = 1, .size = 2, .who = {.host = "n1"}, .facts = {{"binary", "abc"}}});
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THROW(decode_hello(whole.substr(0, n)), error) << n;
  EXPECT_THROW(decode_hello(whole + "x"), error);
  for (unsigned seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    auto damaged = whole;
    damaged[4 + random() % (damaged.size() - 4)] = static_cast<char>(random()); // not the protocol's number
    try {
      decode_hello(damaged);
      decode_members(damaged);
    } catch (const error&) {
    }
  }
}

TEST(Hello, TheFirstDifferenceIsNamedWithBothValues) {
  hello a{.rank = 0, .size = 4, .facts = {{"binary", "1"}, {"options", "x"}}};
  hello b{.rank = 3, .size = 4, .facts = a.facts};
  EXPECT_EQ(differing_fact(a, b), std::nullopt);
  b.facts[1].second = "y\nz";
  EXPECT_EQ(differing_fact(a, b), "'options' differs: rank 0 has 'x', rank 3 has 'y z'");
  b.facts.pop_back();
  EXPECT_EQ(differing_fact(a, b), "'options' differs: rank 0 has 'x', rank 3 has nothing");
}

TEST(Hello, LongValuesAreShownWhereTheyDiffer) {
  const std::string common(5000, 'c');
  const hello a{.rank = 0, .size = 2, .facts = comparable({{"options", common + "1"}})};
  const hello b{.rank = 1, .size = 2, .facts = comparable({{"options", common + "2"}})};
  const auto line = differing_fact(a, b);
  ASSERT_TRUE(line);
  EXPECT_LT(line->size(), 300U);
  EXPECT_THAT(*line, HasSubstr("digest"));
  EXPECT_LT(encode(a).size(), 400U);
  EXPECT_EQ(differing_fact(a, {.rank = 1, .size = 2, .facts = comparable({{"options", common + "1"}})}), std::nullopt);
  const auto late = differing_fact({.rank = 0, .size = 2, .facts = {{"o", std::string(150, 'c') + "--batch 8"}}},
                                   {.rank = 1, .size = 2, .facts = {{"o", std::string(150, 'c') + "--batch 9"}}});
  EXPECT_THAT(late.value_or(""), HasSubstr("--batch 9"));
}

} // namespace
} // namespace penstock::transport
