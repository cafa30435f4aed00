// No plan that a person could pin by hand is better than the one that is found: every partition with every replica list
// of small random models, simulated, against the free choice.
#include "planner/explore/explore.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

namespace penstock::planner::testing {
namespace {

constexpr int layers = 5;
constexpr int devices = 3;

profile random_chain(std::mt19937_64& random) {
  std::uniform_real_distribution<double> real(0, 1);
  profile p{.model = "random", .input_bytes_per_sample = 1000};
  measurement m{.samples = 8};
  for (int i = 0; i < layers; ++i) {
    profile_layer layer{.name = "l" + std::to_string(i), .kind = "random", .inputs = {i - 1}};
    layer.weight_bytes = std::floor(1e6 * std::pow(real(random), 3));
    p.layers.push_back(layer);
    const double forward = 1e-3 * (0.2 + real(random));
    layer_cost c{.forward_seconds = forward, .backward_seconds = forward * (1 + real(random))};
    c.output_bytes = std::floor(1e5 * real(random));
    c.kept_bytes = c.kept_output_bytes = c.output_bytes;
    c.workspace_bytes = c.backward_workspace_bytes = c.output_bytes;
    m.layers.push_back(c);
    m.update_seconds.push_back(1e-4 * real(random));
  }
  p.measurements.push_back(m);
  return p;
}

std::optional<double> step_of(const profile& p, const cluster& c, const plan_request& request) {
  try {
    return make_plan(p, c, request).predicted->step_seconds;
  } catch (const std::invalid_argument&) {
    return std::nullopt; // does not fit
  }
}

/// Calls `use` for every list of first layers and of replicas on at most `devices` devices.
template <class Use>
void for_every_partition(Use use) {
  for (unsigned cuts = 0; cuts < 1U << (layers - 1); ++cuts) {
    std::vector<std::string> first;
    for (int l = 1; l < layers; ++l)
      if (cuts >> (l - 1) & 1U) first.push_back("l" + std::to_string(l));
    const auto stages = first.size() + 1;
    if (stages > devices) continue;
    std::vector<int> replicas(stages, 1);
    for (std::size_t turn = 0; turn < stages;) { // counts up like an odometer
      int sum = 0;
      for (const int r : replicas)
        sum += r;
      if (sum <= devices) use(first, replicas);
      for (turn = 0; turn < stages; ++turn) {
        if (++replicas[turn] <= devices) break;
        replicas[turn] = 1;
      }
    }
  }
}

class FreeChoice : public ::testing::TestWithParam<std::string> {};

/// Of models with so many frozen layers, one after another.
void expect_the_best_is_found(const std::string& schedule, std::uint64_t seeds, const std::vector<int>& frozen) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto p = random_chain(random);
    auto c = flat_cluster(devices, seed % 3 == 0 ? 1e7 : 1e9, 1e-5);
    if (seed % 2 == 1) c.devices.front().memory_bytes = frozen.size() > 1 ? 0.8e6 : 2.5e6;
    plan_request request;
    request.schedules = {schedule};
    if (const auto layer = frozen[seed % frozen.size()]; layer > 0) request.frozen_until = "l" + std::to_string(layer);
    if (schedule != "pipedream") request.microbatches = {4};
    request.in_flight = "tight";
    request.allow_recompute = false;
    double best = INFINITY;
    for_every_partition([&](const auto& first, const auto& replicas) {
      auto pinned = request;
      pinned.first_layers = first;
      pinned.replicas = replicas;
      if (const auto seconds = step_of(p, c, pinned)) best = std::min(best, *seconds);
    });
    const auto found = step_of(p, c, request);
    EXPECT_EQ(found.has_value(), std::isfinite(best));
    if (!found || !std::isfinite(best)) continue;
    EXPECT_LE(*found, best * 1.0051); // ties are worth half a percent
    ++compared;
  }
  EXPECT_GE(compared, static_cast<int>(seeds) / 2);
}

TEST_P(FreeChoice, IsAsFastAsTheBestThatCouldBePinned) {
  expect_the_best_is_found(GetParam(), 24, {0});
}

TEST_P(FreeChoice, IsSoWithAFrozenPrefix) {
  expect_the_best_is_found(GetParam(), 12, {1, 2, 3, 4});
}

INSTANTIATE_TEST_SUITE_P(Schedules, FreeChoice, ::testing::Values("pipedream", "1f1b", "gpipe", "2bw"),
                         [](const auto& schedule) {
                           return schedule.param == "1f1b"    ? std::string("OneForwardOneBackward")
                                  : schedule.param == "2bw"   ? std::string("TwoBuffers")
                                  : schedule.param == "gpipe" ? std::string("Gpipe")
                                                              : std::string("Pipedream");
                         });

TEST(MoreDevices, NeverMakeAPlanSlower) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto p = random_chain(random);
    double before = INFINITY;
    for (int count = 1; count <= 6; ++count) {
      const auto seconds = step_of(p, flat_cluster(count, 1e8, 1e-5), {});
      ASSERT_TRUE(seconds);
      EXPECT_LE(*seconds, before * 1.0051) << count << " devices";
      before = std::min(before, *seconds);
    }
  }
}

} // namespace
} // namespace penstock::planner::testing
