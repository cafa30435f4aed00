// Every value that is none is found, wherever it stands, and nothing else is.
#include "kernels/check.hpp"
#include "kernels/finite.hpp"

#include <gmock/gmock.h>

#include <bit>
#include <limits>
#include <vector>

namespace penstock {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using limits = std::numeric_limits<float>;

std::vector<float> bad_values() {
  return {limits::quiet_NaN(), -limits::quiet_NaN(), limits::signaling_NaN(), std::bit_cast<float>(0x7f800001U),
          limits::infinity(),  -limits::infinity()};
}

TEST(Finite, FindsTheFirstBadValueWhereverItStands) {
  for (const std::size_t count : {1, 3, 1023, 1024, 1025, 5000}) {
    std::vector<float> values(count, limits::max());
    EXPECT_EQ(first_nonfinite(values), std::nullopt);
    for (const float bad : bad_values())
      for (std::size_t place = 0; place < count; place += 1 + count / 97) {
        values[place] = bad;
        values[count - 1] = bad; // a later one changes nothing
        EXPECT_EQ(first_nonfinite(values), place);
        values[place] = values[count - 1] = limits::max();
      }
  }
}

TEST(Finite, LetsEveryFiniteNumberPass) {
  const std::vector<float> values{
      0, -0.0F, limits::denorm_min(), -limits::denorm_min(), limits::min(), limits::max(), limits::lowest(), 1};
  EXPECT_EQ(first_nonfinite(values), std::nullopt);
  EXPECT_EQ(first_nonfinite({}), std::nullopt);
}

TEST(Finite, TensorIsRefusedByNamePlaceAndValue) {
  memory_pool pool;
  auto t = tensor::allocate(pool, dtype::f32, {2, 3, 4}, memory_use::scratch);
  std::fill_n(t.data<float>(), 24, 1.0F);
  EXPECT_NO_THROW(require_finite(t, "w"));
  t.data<float>()[17] = -limits::infinity();
  EXPECT_FALSE(is_finite(t));
  EXPECT_THAT([&] { require_finite(t, "FILE: tensor w"); },
              ThrowsMessage<error>("FILE: tensor w holds -inf at [1, 1, 1]; wanted finite numbers"));
}

TEST(Finite, ScalarsBf16AndOtherTypesAreKnown) {
  memory_pool pool;
  auto scalar = tensor::allocate(pool, dtype::f32, {}, memory_use::scratch);
  scalar.data<float>()[0] = limits::quiet_NaN();
  EXPECT_THAT([&] { require_finite(scalar, "s"); }, ThrowsMessage<error>(HasSubstr("s holds nan at []")));
  auto half = tensor::allocate(pool, dtype::bf16, {2}, memory_use::scratch);
  half.data<std::uint16_t>()[0] = bf16_from_float(3e38F);
  half.data<std::uint16_t>()[1] = 0x7f7f;
  EXPECT_TRUE(is_finite(half));
  half.data<std::uint16_t>()[1] = 0xff80;
  EXPECT_THAT([&] { require_finite(half, "h"); }, ThrowsMessage<error>(HasSubstr("h holds -inf at [1]")));
  auto whole = tensor::allocate(pool, dtype::i32, {1}, memory_use::scratch);
  whole.data<std::int32_t>()[0] = 0x7fc00000; // the bits of a NaN
  EXPECT_NO_THROW(require_finite(whole, "i"));
  EXPECT_NO_THROW(require_finite({}, "none"));
}

TEST(Finite, StateBelowItsLeastIsRefused) {
  memory_pool pool;
  auto t = tensor::allocate(pool, dtype::f32, {3}, memory_use::scratch);
  std::fill_n(t.data<float>(), 3, 0.0F);
  const state_spec variance{.name = "running_var", .dims = {3}, .least = 0};
  EXPECT_NO_THROW(require_state(t, variance, "v"));
  t.data<float>()[2] = -0.25F;
  EXPECT_THAT([&] { require_state(t, variance, "v"); },
              ThrowsMessage<error>("v holds -0.25 at [2]; wanted at least 0"));
  EXPECT_NO_THROW(require_state(t, {.name = "running_mean", .dims = {3}}, "m"));
}

} // namespace
} // namespace penstock
