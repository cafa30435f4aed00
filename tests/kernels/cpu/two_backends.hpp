// The oneDNN backend and the plain loops side by side, for comparing them, and the delayed device, which has their
// bits.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/stream.hpp"
#include "tests/support/delayed/delayed_device.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace penstock {

inline std::vector<float> values_of(backend& ops, const tensor& x) {
  const tensor plain = ops.to_plain(x);
  return {plain.data<float>(), plain.data<float>() + plain.elements()};
}

inline void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

/// A device with one stream of each kind; inputs are plain and from a fixed seed.
class TwoBackends : public ::testing::Test {
public:
  std::shared_ptr<device> machine = open_device({device_kind::cpu, 0});
  std::unique_ptr<stream> fast = machine->create_stream({.name = "fast", .threads = threads()});
  std::unique_ptr<stream> plain = machine->create_stream({.name = "plain", .reference = true});
  std::unique_ptr<stream> late = testing::open_delayed_device()->create_stream({.name = "late"});

  virtual int threads() const { return 2; }

  tensor random(shape dims, float low = -1.0F, float high = 1.0F) {
    tensor x = tensor::allocate(machine->memory(), dtype::f32, std::move(dims), memory_use::scratch);
    std::uniform_real_distribution<float> value(low, high);
    for (std::int64_t i = 0; i < x.elements(); ++i)
      x.data<float>()[i] = value(engine_);
    return x;
  }

  /// Runs compute(ops) on all. Every f32 tensor it returns must agree within tolerance * (1 + greatest magnitude), to
  /// the bit between the plain loops and the delayed device, and its padding must be zero. Inputs go through `plainly`
  /// or `activation`.
  template <class Compute>
  void expect_agreement(Compute compute, double tolerance = 2e-5) {
    const auto found = results(*fast, compute), wanted = results(*plain, compute), later = results(*late, compute);
    ASSERT_EQ(found.size(), wanted.size());
    ASSERT_EQ(later.size(), wanted.size());
    for (std::size_t t = 0; t < wanted.size(); ++t) {
      ASSERT_EQ(found[t].size(), wanted[t].size()) << "result " << t;
      expect_same_bits(later[t], wanted[t], "of the delayed device and the plain loops");
      double greatest = 1, worst = 0;
      for (const float w : wanted[t])
        greatest = std::max(greatest, 1.0 + std::abs(static_cast<double>(w)));
      for (std::size_t i = 0; i < wanted[t].size(); ++i) {
        const double off = std::abs(static_cast<double>(found[t][i]) - wanted[t][i]);
        worst = std::isnan(off) ? INFINITY : std::max(worst, off);
      }
      EXPECT_LE(worst / greatest, tolerance) << "result " << t;
    }
  }

  /// The input on the backend's device.
  static tensor plainly(backend& ops, const tensor& x) { return x ? ops.from_host(x, memory_use::scratch) : x; }
  /// The same in the activation layout, as a copy that may be overwritten.
  static tensor activation(backend& ops, const tensor& x) {
    return ops.reorder(ops.copy(plainly(ops, x), memory_use::scratch), ops.activation_format(x.dims()),
                       memory_use::activations);
  }

  /// Stored elements beyond the logical ones; they must all be zero.
  static void expect_zero_padding(backend& ops, const tensor& x) {
    if (!x || x.is_plain() || x.type() != dtype::f32) return;
    double stored = 0, logical = 0;
    for (std::int64_t i = 0; i < x.stored_elements(); ++i)
      stored += std::abs(static_cast<double>(x.data<float>()[i]));
    for (const float v : values_of(ops, x))
      logical += std::abs(static_cast<double>(v));
    EXPECT_NEAR(stored, logical, 1e-9 * (1 + logical)) << "padding of " << to_string(x.dims()) << " is not zero";
  }

private:
  template <class Compute>
  std::vector<std::vector<float>> results(stream& on, Compute& compute) {
    std::vector<tensor> copies;
    on.run([&](backend& ops) {
      for (const tensor& t : compute(ops)) {
        expect_zero_padding(ops, t);
        copies.push_back(t ? ops.to_host(t, machine->memory()) : tensor{});
      }
    });
    std::vector<std::vector<float>> values;
    for (const tensor& t : copies)
      values.push_back(t ? std::vector(t.data<float>(), t.data<float>() + t.elements()) : std::vector<float>{});
    return values;
  }

  std::mt19937 engine_{20240611};
};

} // namespace penstock
