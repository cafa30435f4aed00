// What a cluster may be, and its devices' names.
#include "planner/cluster/cluster.hpp"
#include "tests/planner/profile/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace penstock::planner {
namespace {

using testing::HasSubstr;

/// Three fast and five slow devices, on two levels of two and four.
cluster two_types() {
  return {.name = "lab",
          .devices = {{.name = "fast", .count = 3, .memory_bytes = 16e9},
                      {.name = "slow", .count = 5, .memory_bytes = 8e9, .speed = 0.5}},
          .levels = {{.group = 2, .bandwidth_bytes_per_s = 10e9, .latency_s = 1e-6},
                     {.group = 4, .bandwidth_bytes_per_s = 1e9, .latency_s = 1e-5}}};
}

template <class Change>
std::string refusal_after(const Change& change) {
  auto c = two_types();
  change(c);
  return refusal([&] { check_cluster(c); });
}

TEST(Cluster, DevicesAreNumberedTypeByType) {
  const auto c = two_types();
  EXPECT_EQ(c.device_count(), 8);
  EXPECT_EQ(c.type_of(2), 0);
  EXPECT_EQ(c.type_of(3), 1);
  EXPECT_EQ(c.device_name(0), "fast:0");
  EXPECT_EQ(c.device_name(3), "slow:0");
  EXPECT_EQ(c.device_name(7), "slow:4");
  for (int device = 0; device < c.device_count(); ++device)
    EXPECT_EQ(c.device_named(c.device_name(device)), device);
}

TEST(Cluster, DevicesThatAreNotThereAreRefused) {
  const auto c = two_types();
  EXPECT_EQ(refusal([&] { c.device_named("slow:5"); }), "there is no device 'slow:5', wanted 'slow:0' to 'slow:4'");
  EXPECT_EQ(refusal([&] { c.device_named("slwo:1"); }),
            "there is no device type 'slwo' in the cluster (did you mean 'slow'?)");
  EXPECT_EQ(refusal([&] { c.device_named("slow"); }),
            "the device is 'slow', wanted a type and a number, as in 'fast:0'");
  for (const auto* name : {"", ":", "slow:", "slow:-1", "slow:1x", "slow: 1", "slow:99999999999", "slow\n:1"})
    EXPECT_NE(refusal([&] { c.device_named(name); }), "") << name;
  EXPECT_EQ(refusal([&] { c.type_of(8); }), "there is no device 8, the cluster has 8");
  EXPECT_NE(refusal([&] { c.device_name(-1); }), "");
}

TEST(Cluster, TypesAreChecked) {
  EXPECT_EQ(refusal_after([](cluster&) {}), "");
  EXPECT_EQ(refusal_after([](cluster& c) { c.devices.clear(); }), "the cluster has no devices");
  EXPECT_EQ(refusal_after([](cluster& c) { c.devices[1].name = "fast"; }), "device type 'fast' is there twice");
  EXPECT_EQ(refusal_after([](cluster& c) { c.devices[1].name = ""; }), "device type 1 has no name");
  EXPECT_THAT(refusal_after([](cluster& c) { c.devices[1].name = "a\tb"; }), HasSubstr("'a\\x09b'"));
  EXPECT_EQ(refusal_after([](cluster& c) { c.devices[1].count = 0; }),
            "device type 'slow': count is 0, wanted 1 to 65536");
  EXPECT_THAT(refusal_after([](cluster& c) { c.devices[1].count = 1'000'000; }), HasSubstr("count is 1000000"));
  EXPECT_THAT(refusal_after([](cluster& c) { c.devices[0].count = c.devices[1].count = 65'536; }),
              HasSubstr("131072 devices"));
  EXPECT_THAT(refusal_after([](cluster& c) { c.devices[0].threads = -1; }), HasSubstr("threads is -1"));
  for (const double bad : {0.0, -1.0, 1e-9, 1e9, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(refusal_after([&](cluster& c) { c.devices[0].speed = bad; }), HasSubstr("'fast': speed is "));
  for (const double bad : {-1.0, 1e16, std::nan("")})
    EXPECT_THAT(refusal_after([&](cluster& c) { c.devices[0].memory_bytes = bad; }), HasSubstr("memory_bytes is "));
}

TEST(Cluster, StreamingDevicesAreChecked) {
  const auto refusal_of = [](streaming_device s) {
    return refusal_after([&](cluster& c) { c.devices[0].streaming = s; });
  };
  const streaming_device board{.multipliers = 6840, .clock_hz = 200e6, .efficiency = 0.8, .memory_bytes_per_s = 38e9};
  EXPECT_EQ(refusal_of(board), "");
  for (const auto member : {&streaming_device::multipliers, &streaming_device::clock_hz, &streaming_device::efficiency,
                            &streaming_device::memory_bytes_per_s}) {
    auto bad = board;
    bad.*member = 0;
    EXPECT_THAT(refusal_of(bad), HasSubstr("device type 'fast': streaming."));
  }
  auto bad = board;
  bad.efficiency = 1.1;
  EXPECT_THAT(refusal_of(bad), HasSubstr("efficiency is 1.1"));
}

TEST(Cluster, LinksAreChecked) {
  for (const double bad : {0.0, -1e9, 1e16, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(refusal_after([&](cluster& c) { c.levels[1].bandwidth_bytes_per_s = bad; }),
                HasSubstr("link 1: bandwidth_bytes_per_s is "));
  for (const double bad : {-1e-6, 1e6, std::nan("")})
    EXPECT_THAT(refusal_after([&](cluster& c) { c.levels[0].latency_s = bad; }), HasSubstr("link 0: latency_s is "));
  EXPECT_EQ(refusal_after([](cluster& c) { c.levels.clear(); }), "the cluster has 8 devices and no links between them");
  EXPECT_THAT(refusal_after([](cluster& c) { c.levels[0].group = 0; }), HasSubstr("link 0: group is 0"));
  EXPECT_THAT(refusal_after([](cluster& c) { c.levels.assign(17, {.group = 1, .bandwidth_bytes_per_s = 1e9}); }),
              HasSubstr("17 levels"));
}

TEST(Cluster, GroupsJoinAllDevices) {
  EXPECT_EQ(refusal_after([](cluster& c) { c.levels[1].group = 5; }),
            "the groups of the links join 2 x 5 = 10 devices, and the cluster has 8");
  EXPECT_EQ(refusal_after([](cluster& c) { c.levels.pop_back(); }),
            "the groups of the links join 2 devices, and the cluster has 8");
  EXPECT_EQ(refusal_after([](cluster& c) { c.levels.assign(4, {.group = 65'536, .bandwidth_bytes_per_s = 1e9}); }),
            "the groups of the links join 65536 x 65536 x 65536 x 65536 devices, and the cluster has 8");
  EXPECT_EQ(refusal_after([](cluster& c) { c.levels.push_back({.group = 1, .bandwidth_bytes_per_s = 1e9}); }), "");
}

TEST(Cluster, OneDeviceNeedsNoLinks) {
  const cluster c{.name = "alone", .devices = {{.name = "cpu"}}, .levels = {}};
  EXPECT_EQ(refusal([&] { check_cluster(c); }), "");
  EXPECT_EQ(c.level_between(0, 0), -1);
}

TEST(Cluster, FlatClustersAreRight) {
  for (const int count : {1, 2, 7, 4096}) {
    const auto c = flat_cluster(count, 1e9, 1e-5, 4e9);
    EXPECT_EQ(refusal([&] { check_cluster(c); }), "");
    EXPECT_EQ(c.device_count(), count);
    EXPECT_EQ(c.devices[0].memory_bytes, 4e9);
  }
}

} // namespace
} // namespace penstock::planner
