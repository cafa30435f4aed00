// Whether two tensors agree, measured against the greatest value of the one that is right.
#pragma once

#include "tests/kernels/backend_suite/layer_harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace penstock::testing {

/// Largest difference over the largest expected value; NaN anywhere counts as infinitely far.
inline double relative_distance(const std::vector<float>& found, const std::vector<float>& expected) {
  double difference = 0;
  double greatest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double one = std::abs(static_cast<double>(found.at(i)) - static_cast<double>(expected[i]));
    if (std::isnan(one)) return HUGE_VAL;
    difference = std::max(difference, one);
    greatest = std::max(greatest, std::abs(static_cast<double>(expected[i])));
  }
  return difference == 0 ? 0 : difference / greatest;
}

inline void expect_close(const host_tensor& found, const host_tensor& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(found.dims, expected.dims) << what;
  EXPECT_LE(relative_distance(found.values, expected.values), tolerance) << what;
}

inline void expect_close(const std::vector<host_tensor>& found, const std::vector<host_tensor>& expected,
                         double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    expect_close(found[i], expected[i], tolerance, what + " " + std::to_string(i));
}

/// Equal to the bit (but for the sign of zero).
inline void expect_same(const std::vector<host_tensor>& found, const std::vector<host_tensor>& expected,
                        const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].dims, expected[i].dims) << what << " " << i;
    EXPECT_EQ(found[i].values, expected[i].values) << what << " " << i;
  }
}

} // namespace penstock::testing
