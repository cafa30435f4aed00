// Register tiles and the functions of gates, for every instruction set that the machine has.
#include "kernels/cpu/tiles.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace penstock {
namespace {

std::vector<vector_width> widths_here() {
  std::vector<vector_width> all{vector_width::baseline};
  if (widest_vectors() != vector_width::baseline) all.push_back(vector_width::avx2);
  if (widest_vectors() == vector_width::avx512) all.push_back(vector_width::avx512);
  return all;
}

class matrix {
public:
  matrix(std::int64_t rows, std::int64_t columns, unsigned seed) : columns_(columns) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    values_.resize(static_cast<std::size_t>(rows * columns));
    for (float& value : values_)
      value = normal(generator);
    for (std::int64_t r = 0; r < rows; ++r) {
      rows_.push_back(values_.data() + r * columns);
      const_rows_.push_back(rows_.back());
    }
  }
  float at(std::int64_t r, std::int64_t c) const { return values_[static_cast<std::size_t>(r * columns_ + c)]; }
  float* const* rows() const { return rows_.data(); }
  const float* const* const_rows() const { return const_rows_.data(); }
  const std::vector<float>& values() const { return values_; }

private:
  std::int64_t columns_;
  std::vector<float> values_;
  std::vector<float*> rows_;
  std::vector<const float*> const_rows_;
};

struct aligned_floats {
  explicit aligned_floats(std::int64_t count)
      : block(static_cast<float*>(std::aligned_alloc(64, static_cast<std::size_t>((count * 4 + 63) / 64 * 64)))) {}
  ~aligned_floats() { std::free(block); }
  aligned_floats(const aligned_floats&) = delete;
  aligned_floats& operator=(const aligned_floats&) = delete;
  float* block;
};

struct product_case {
  std::int64_t rows, depth, columns;
};

matrix product_of(const tile_set& tiles, const product_case& c, bool add, int team) {
  const matrix a(c.rows, c.depth, 1), b(c.depth, c.columns, 2);
  matrix out(c.rows, c.columns, 3);
  const std::int64_t panels = tiles.panels(c.columns), width = tiles.width();
  const aligned_floats packed(panels * width * c.depth);
  for (std::int64_t p = 0; p < panels; ++p)
    pack_panel(tiles, b.const_rows(), c.depth, p * width, c.columns, packed.block + p * width * c.depth);
  const tile_product product{a.const_rows(), c.depth, packed.block, c.columns, out.rows(), add};
  for (int member = 0; member < team; ++member)
    for (int other = 0; other < team; ++other)
      product.compute(tiles, share(c.rows, member, team), share(panels, other, team));
  return out;
}

TEST(Tiles, MultiplyWhateverTheExtents) {
  for (const auto width : widths_here()) {
    const tile_set& tiles = tiles_of(width);
    for (const auto& c : {product_case{1, 1, 1}, product_case{7, 5, 3}, product_case{13, 37, 64},
                          product_case{20, 641, 70}, product_case{29, 1300, 131}, product_case{107, 5000, 5}}) {
      SCOPED_TRACE(std::to_string(tiles.lanes) + " lanes, " + std::to_string(c.rows) + " x " + std::to_string(c.depth) +
                   " x " + std::to_string(c.columns));
      const matrix a(c.rows, c.depth, 1), b(c.depth, c.columns, 2), before(c.rows, c.columns, 3);
      for (const bool add : {false, true}) {
        const matrix found = product_of(tiles, c, add, 1);
        for (std::int64_t r = 0; r < c.rows; ++r)
          for (std::int64_t n = 0; n < c.columns; ++n) {
            double sum = add ? before.at(r, n) : 0;
            for (std::int64_t k = 0; k < c.depth; ++k)
              sum += static_cast<double>(a.at(r, k)) * b.at(k, n);
            EXPECT_NEAR(found.at(r, n), sum, 2e-6 * static_cast<double>(c.depth) + 1e-6);
          }
        EXPECT_EQ(product_of(tiles, c, add, 3).values(), found.values()) << "the same bits in parts";
      }
    }
  }
}

TEST(Tiles, StartWithARow) {
  for (const auto width : widths_here()) {
    const tile_set& tiles = tiles_of(width);
    const matrix a(3, 2, 1), b(2, tiles.width(), 2), start(1, tiles.width(), 4);
    matrix out(3, tiles.width(), 3);
    const aligned_floats packed(tiles.width() * 2);
    pack_panel(tiles, b.const_rows(), 2, 0, tiles.width(), packed.block);
    const tile_product product{a.const_rows(), 2, packed.block, tiles.width(), out.rows(), false, start.rows()[0]};
    product.compute(tiles, share(3, 0, 1), share(1, 0, 1));
    for (std::int64_t r = 0; r < 3; ++r)
      for (std::int64_t n = 0; n < tiles.width(); ++n)
        EXPECT_NEAR(out.at(r, n), start.at(0, n) + a.at(r, 0) * b.at(0, n) + a.at(r, 1) * b.at(1, n), 1e-5);
  }
}

TEST(Tiles, TransposeWhateverTheExtents) {
  for (const auto width : widths_here()) {
    const tile_set& tiles = tiles_of(width);
    for (const auto& [rows, columns] : {std::pair{1L, 1L}, {16L, 16L}, {35L, 18L}, {64L, 33L}, {5L, 40L}}) {
      const matrix from(rows, columns, 1);
      matrix to(columns, rows + 2, 2);
      const matrix before = to;
      tiles.transpose(from.const_rows(), rows, columns, to.rows()[0], rows + 2);
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < rows; ++r)
          EXPECT_EQ(to.at(c, r), from.at(r, c));
        EXPECT_EQ(to.at(c, rows), before.at(c, rows));
      }
    }
  }
}

enum class gate_function { sigmoid, tanh, exponential };

std::vector<float> computed(vector_width width, gate_function which, std::vector<float> x) {
  call_with_lanes(width, [&]<int Lanes>() PENSTOCK_VECTORIZED {
    using mem = typename lanes_of<Lanes>::mem;
    for (std::size_t i = 0; i + Lanes <= x.size(); i += Lanes) {
      mem& at = *reinterpret_cast<mem*>(x.data() + i); // not auto, which forgets that it is not aligned
      typename lanes_of<Lanes>::vec v = at;
      if (which == gate_function::sigmoid)
        sigmoid_in_place<Lanes>(v);
      else if (which == gate_function::tanh)
        tanh_in_place<Lanes>(v);
      else
        exponential_in_place<Lanes>(v);
      at = v;
    }
  });
  return x;
}

TEST(LaneMath, IsWithinAFewUnitsOfTheLastPlace) {
  std::vector<float> x;
  for (int i = -8000; i < 8000; ++i)
    x.push_back(static_cast<float>(i) * 0.00125F); // +-10
  for (const float far : {20.0F, 60.0F, 86.0F, 200.0F, 1e-3F, 1e-6F, 1e-20F, 0.0F})
    x.push_back(far), x.push_back(-far);
  for (const auto width : widths_here()) {
    const auto sigmoids = computed(width, gate_function::sigmoid, x), tanhs = computed(width, gate_function::tanh, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], sigmoid = 1 / (1 + std::exp(-v)), tanh = std::tanh(v);
      EXPECT_NEAR(sigmoids[i], sigmoid, 4e-7 * sigmoid + 2e-38) << v;
      EXPECT_NEAR(tanhs[i], tanh, 4e-7 * std::abs(tanh)) << v;
      if (v > 0) continue;
      const float e = computed(width, gate_function::exponential, std::vector<float>(16, x[i]))[0];
      EXPECT_NEAR(e, std::exp(v), 4e-7 * std::exp(v) + 2e-38) << v;
    }
  }
}

TEST(LaneMath, KeepsNotANumberAndComesToTheLimits) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const auto width : widths_here())
    for (const auto which : {gate_function::sigmoid, gate_function::tanh}) {
      const auto at = [&](float x) { return computed(width, which, std::vector<float>(16, x))[0]; };
      EXPECT_TRUE(std::isnan(at(std::numeric_limits<float>::quiet_NaN())));
      EXPECT_EQ(at(infinite), 1);
      EXPECT_NEAR(at(-infinite), which == gate_function::tanh ? -1 : 0, 1e-37);
    }
}

} // namespace
} // namespace penstock
