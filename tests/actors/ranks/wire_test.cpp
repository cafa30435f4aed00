// Messages through their wire form and back, and what is no message.
#include "actors/ranks/wire.hpp"
#include "kernels/check.hpp"
#include "tests/support/microbatch.hpp"

#include <gmock/gmock.h>

#include <random>

namespace penstock::actors {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class WireMessage : public ::testing::Test {
public:
  memory_pool pool;
  message_key key{
      .plan_epoch = 0, .stretch = 3, .minibatch = 70, .since_drain = 5, .microbatch = 2, .mode = phase::training};
  tensor filled(shape dims, float value) {
    auto t = tensor::allocate(pool, dtype::f32, std::move(dims), memory_use::activations);
    std::fill_n(t.data<float>(), t.elements(), value);
    return t;
  }
  template <class Message>
  Message round_trip(const Message& m) {
    const address to{address::part::replica, 1, 2};
    const auto wire = encode(to, m);
    EXPECT_LE(wire.header.size(), transport::max_header_bytes);
    EXPECT_EQ(address_of(wire.header), to);
    auto a = decode(wire);
    EXPECT_EQ(a.to, to);
    return std::get<Message>(a.message);
  }
};

TEST_F(WireMessage, ActivationsKeepNamesShapesTypesAndBytes) {
  activation_msg m{key, 9, info_of(4, 8), {{"conv1", filled({4, 2}, 1.5F)}, {"skip", {}}}};
  auto ids = tensor::allocate(pool, dtype::i64, {4}, memory_use::activations);
  std::fill_n(ids.data<std::int64_t>(), 4, 7);
  m.tensors.push_back({"ids", ids});
  const auto back = round_trip(m);
  EXPECT_EQ(back.key.minibatch, 70);
  EXPECT_EQ(back.key.microbatch, 2);
  EXPECT_EQ(back.key.stretch, 3);
  EXPECT_EQ(back.version, 9);
  EXPECT_EQ(back.info, info_of(4, 8));
  ASSERT_EQ(back.tensors.size(), 3U);
  EXPECT_EQ(back.tensors[0].name, "conv1");
  EXPECT_EQ(back.tensors[0].value.dims(), (shape{4, 2}));
  EXPECT_EQ(back.tensors[0].value.storage().identity(), m.tensors[0].value.storage().identity()) << "no copy";
  EXPECT_FALSE(back.tensors[1].value);
  EXPECT_EQ(back.tensors[2].value.data<std::int64_t>()[3], 7);
}

TEST_F(WireMessage, ATensorsLayoutTravelsByName) {
  const auto laid_out = std::make_shared<wire_format>(64, "blocked16");
  gradient_msg m{
      key, 1, {{"x", tensor(dtype::f32, {1, 3, 2, 2}, pool.allocate(64, memory_use::activations), laid_out)}}};
  const auto back = round_trip(m).tensors[0].value;
  EXPECT_EQ(back.format()->name(), "blocked16");
  EXPECT_EQ(back.bytes(), 64U);
}

TEST_F(WireMessage, ManyTensorsWithLongNamesNeedNoLargerHeader) {
  activation_msg m{key, 0, info_of(1, 1), {}};
  for (int i = 0; i < 100; ++i)
    m.tensors.push_back({std::string(40, 'n') + std::to_string(i), filled({1, 1}, static_cast<float>(i))});
  const auto back = round_trip(m);
  ASSERT_EQ(back.tensors.size(), 100U);
  EXPECT_EQ(back.tensors[99].value.data<float>()[0], 99);
  EXPECT_EQ(back.tensors[99].name, m.tensors[99].name);
}

TEST_F(WireMessage, SmallOnesToo) {
  const inputs_msg inputs{
      key, info_of(2, 8), {{"labels", tensor::allocate(pool, dtype::i64, {2}, memory_use::activations)}}};
  EXPECT_EQ(round_trip(inputs).info.counts[0], 8);
  EXPECT_EQ(round_trip(inputs).tensors.at(0).name, "labels");
  const loss_msg loss{key, {.samples = 2, .sums = {1.25, 1, 2}, .counts = {8}}, {{"y", filled({2, 3}, 1)}}};
  EXPECT_EQ(round_trip(loss).metrics.sums[0], 1.25);
  EXPECT_EQ(round_trip(loss).results.at(0).value.dims(), (shape{2, 3}));
  EXPECT_EQ(round_trip(credit_msg{key}).key.since_drain, 5);
  EXPECT_EQ(round_trip(norm_msg{3, 1, 4, {1.0, 0.5}}).squares, (std::vector<double>{1.0, 0.5}));
  EXPECT_EQ(round_trip(clip_msg{3, 4, 0.25F}).factor, 0.25F);
  EXPECT_EQ(stretch_of(clip_msg{3, 4, 0.25F}), 3);
  EXPECT_EQ(stretch_of(credit_msg{key}), 3);
}

TEST_F(WireMessage, ATensorOfOtherBytesThanItsShapeIsRefused) {
  auto wire = encode({}, activation_msg{key, 0, info_of(4, 4), {{"x", filled({4, 2}, 1)}}});
  wire.parts[0].size -= 4;
  EXPECT_THAT([&] { decode(wire); }, ThrowsMessage<error>(HasSubstr("[4, 2] came with 28 bytes")));
  wire.parts.clear();
  EXPECT_THAT([&] { decode(wire); }, ThrowsMessage<error>(HasSubstr("lacks a tensor's bytes")));
}

TEST_F(WireMessage, AnyHeaderCutShortOrScrambledIsRefusedOrDecodedButNeverMore) {
  const auto whole =
      encode({}, activation_msg{key, 0, info_of(4, 4), {{"x", filled({4, 2}, 1)}, {"y", filled({4, 3}, 1)}}});
  for (std::size_t cut = 0; cut < whole.header.size(); ++cut) {
    auto shorter = whole;
    shorter.header.resize(cut);
    EXPECT_THROW(decode(shorter), error) << cut;
  }
  std::mt19937 bits(5);
  for (int i = 0; i < 5000; ++i) {
    auto scrambled = whole;
    for (int flips = 0; flips < 3; ++flips)
      scrambled.header[bits() % scrambled.header.size()] = static_cast<char>(bits());
    try {
      decode(scrambled);
    } catch (const error&) { // what is no message
    }
  }
}

} // namespace
} // namespace penstock::actors
