// Tensor handles: what they share, and what they refuse.
#include "kernels/check.hpp"
#include "kernels/tensor.hpp"

#include <gmock/gmock.h>

namespace penstock {
namespace {

// Rows padded to eight elements.
class padded_rows : public tensor_format {
public:
  explicit padded_rows(std::int64_t rows) : rows_(rows) {}
  std::size_t bytes() const override { return static_cast<std::size_t>(rows_) * 8 * 4; }
  bool equals(const tensor_format& other) const override {
    const auto* p = dynamic_cast<const padded_rows*>(&other);
    return p != nullptr && p->rows_ == rows_;
  }
  std::string name() const override { return "padded"; }

private:
  std::int64_t rows_;
};

TEST(Tensor, DefaultIsNone) {
  const tensor none;
  EXPECT_FALSE(none);
  EXPECT_FALSE(none.is_unique());
  EXPECT_TRUE(none.is_plain());
  EXPECT_EQ(none.raw(), nullptr);
}

TEST(Tensor, CopiesShareTheBytes) {
  memory_pool pool;
  auto a = tensor::allocate(pool, dtype::f32, {2, 3}, memory_use::scratch);
  EXPECT_TRUE(a.is_unique());
  EXPECT_EQ(a.bytes(), 24U);
  EXPECT_EQ(a.elements(), 6);
  EXPECT_EQ(a.dim(1), 3);
  EXPECT_THROW(a.dim(2), std::out_of_range);
  {
    const tensor b = a;
    b.data<float>()[5] = 7;
    EXPECT_FALSE(a.is_unique());
    EXPECT_EQ(a.data<float>()[5], 7);
  }
  EXPECT_TRUE(a.is_unique());
  const auto moved = std::move(a);
  EXPECT_TRUE(moved.is_unique());
  EXPECT_FALSE(a); // NOLINT: a moved-from tensor is none
}

TEST(Tensor, ReshapedSharesTheBytesAndKeepsTheirNumber) {
  memory_pool pool;
  const auto a = tensor::allocate(pool, dtype::i64, {2, 6}, memory_use::scratch);
  const auto b = a.reshaped({3, 2, 2});
  EXPECT_EQ(b.raw(), a.raw());
  EXPECT_EQ(b.type(), dtype::i64);
  EXPECT_EQ(b.dims(), (shape{3, 2, 2}));
  EXPECT_THROW(a.reshaped({5}), std::logic_error);
  const auto padded = tensor::allocate(pool, dtype::f32, {2, 3}, memory_use::scratch, std::make_shared<padded_rows>(2));
  EXPECT_THROW(padded.reshaped({6}), std::logic_error);
}

TEST(Tensor, IsReadAsItsOwnTypeOnly) {
  memory_pool pool;
  const auto check_all = [&](dtype type, auto right) {
    const auto t = tensor::allocate(pool, type, {2}, memory_use::scratch);
    EXPECT_EQ(static_cast<void*>(t.data<decltype(right)>()), t.raw());
    EXPECT_EQ(t.bytes(), 2 * sizeof right);
    int refused = 0;
    try {
      t.data<float>();
    } catch (const std::logic_error&) {
      ++refused;
    }
    try {
      t.data<std::uint16_t>();
    } catch (const std::logic_error&) {
      ++refused;
    }
    try {
      t.data<std::int64_t>();
    } catch (const std::logic_error&) {
      ++refused;
    }
    try {
      t.data<std::int32_t>();
    } catch (const std::logic_error&) {
      ++refused;
    }
    try {
      t.data<std::uint8_t>();
    } catch (const std::logic_error&) {
      ++refused;
    }
    EXPECT_EQ(refused, 4) << name_of(type);
  };
  check_all(dtype::f32, float{});
  check_all(dtype::bf16, std::uint16_t{});
  check_all(dtype::i64, std::int64_t{});
  check_all(dtype::i32, std::int32_t{});
  check_all(dtype::u8, std::uint8_t{});
}

TEST(Tensor, AFormatDecidesTheBytes) {
  memory_pool pool;
  const format_ptr two = std::make_shared<padded_rows>(2);
  const auto t = tensor::allocate(pool, dtype::f32, {2, 3}, memory_use::scratch, two);
  EXPECT_EQ(t.bytes(), 64U);
  EXPECT_EQ(t.elements(), 6);
  EXPECT_EQ(t.stored_elements(), 16);
  EXPECT_FALSE(t.is_plain());
  EXPECT_TRUE(same_format(two, std::make_shared<padded_rows>(2)));
  EXPECT_FALSE(same_format(two, std::make_shared<padded_rows>(3)));
  EXPECT_FALSE(same_format(two, nullptr));
  EXPECT_FALSE(same_format(nullptr, two));
  EXPECT_TRUE(same_format(nullptr, nullptr));
}

TEST(Tensor, RefusesABufferThatIsTooSmall) {
  memory_pool pool;
  EXPECT_THROW(tensor(dtype::f32, {4}, pool.allocate(15, memory_use::scratch)), std::logic_error);
  EXPECT_THROW(tensor(dtype::f32, {4}, buffer{}), std::logic_error);
  EXPECT_NO_THROW(tensor(dtype::f32, {4}, pool.allocate(17, memory_use::scratch)));
  EXPECT_THROW(tensor(dtype::f32, {4}, pool.allocate(16, memory_use::scratch), std::make_shared<padded_rows>(1)),
               std::logic_error);
}

TEST(Tensor, MayBeEmptyOrAScalar) {
  memory_pool pool;
  const auto empty = tensor::allocate(pool, dtype::f32, {0, 3}, memory_use::scratch);
  EXPECT_TRUE(empty);
  EXPECT_EQ(empty.elements(), 0);
  const auto scalar = tensor::allocate(pool, dtype::i64, {}, memory_use::scratch);
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_EQ(scalar.bytes(), 8U);
}

TEST(Tensor, RefusesANegativeNumberOfElements) {
  memory_pool pool;
  EXPECT_ANY_THROW(tensor::allocate(pool, dtype::f32, {-1}, memory_use::scratch));
  EXPECT_ANY_THROW(tensor::allocate(pool, dtype::f32, {3, -2}, memory_use::scratch));
}

} // namespace
} // namespace penstock
