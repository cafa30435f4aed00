// Clusters from TOML and back, the examples, and TOML that is none.
#include "planner/cluster/cluster.hpp"
#include "tests/planner/profile/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace penstock::planner {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string whole = R"(# a lab
name = "lab \"1\""

[[device]]
type = "v100"
count = 4
memory_bytes = 16000000000
speed = 1
threads = 2

[[device]]
type = "board"
count = 4
[device.streaming]
multipliers = 6840
clock_hz = 200e6
efficiency = 0.8
on_chip_bytes = 43e6
memory_bytes_per_s = 38_000_000_000

[[link]]
group = 4
bandwidth_bytes_per_s = 10e9
latency_s = 5e-6
shared = true

[[link]]
group = 2
bandwidth_bytes_per_s = 1.25e9
latency_s = 2e-05
half_duplex = true
)";

std::string refusal_of(const std::string& text) {
  return refusal([&] { cluster_from_toml(text, "c.toml"); });
}

std::string refusal_with(const std::string& from, const std::string& to) {
  return refusal_of(replaced(whole, from, to));
}

void expect_equal(const cluster& a, const cluster& b) {
  EXPECT_EQ(a.name, b.name);
  ASSERT_EQ(a.devices.size(), b.devices.size());
  for (std::size_t i = 0; i < a.devices.size(); ++i) {
    const auto& x = a.devices[i];
    const auto& y = b.devices[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.count, y.count);
    EXPECT_EQ(x.memory_bytes, y.memory_bytes);
    EXPECT_EQ(x.speed, y.speed);
    EXPECT_EQ(x.threads, y.threads);
    EXPECT_EQ(x.profile_name, y.profile_name);
    ASSERT_EQ(x.streaming.has_value(), y.streaming.has_value());
    if (!x.streaming) continue;
    EXPECT_EQ(x.streaming->multipliers, y.streaming->multipliers);
    EXPECT_EQ(x.streaming->clock_hz, y.streaming->clock_hz);
    EXPECT_EQ(x.streaming->efficiency, y.streaming->efficiency);
    EXPECT_EQ(x.streaming->on_chip_bytes, y.streaming->on_chip_bytes);
    EXPECT_EQ(x.streaming->memory_bytes_per_s, y.streaming->memory_bytes_per_s);
  }
  ASSERT_EQ(a.levels.size(), b.levels.size());
  for (std::size_t i = 0; i < a.levels.size(); ++i) {
    EXPECT_EQ(a.levels[i].group, b.levels[i].group);
    EXPECT_EQ(a.levels[i].bandwidth_bytes_per_s, b.levels[i].bandwidth_bytes_per_s);
    EXPECT_EQ(a.levels[i].latency_s, b.levels[i].latency_s);
    EXPECT_EQ(a.levels[i].shared, b.levels[i].shared);
    EXPECT_EQ(a.levels[i].half_duplex, b.levels[i].half_duplex);
    EXPECT_EQ(a.levels[i].by_reference, b.levels[i].by_reference);
  }
}

TEST(ClusterToml, ReadsEveryKey) {
  const auto c = cluster_from_toml(whole, "c.toml");
  EXPECT_EQ(c.name, "lab \"1\"");
  ASSERT_EQ(c.devices.size(), 2U);
  EXPECT_EQ(c.devices[0].name, "v100");
  EXPECT_EQ(c.devices[0].count, 4);
  EXPECT_EQ(c.devices[0].memory_bytes, 16e9); // an integer does where a number is wanted
  EXPECT_EQ(c.devices[0].speed, 1);
  EXPECT_EQ(c.devices[0].threads, 2);
  EXPECT_FALSE(c.devices[0].streaming);
  ASSERT_TRUE(c.devices[1].streaming);
  EXPECT_EQ(c.devices[1].streaming->multipliers, 6840);
  EXPECT_EQ(c.devices[1].streaming->efficiency, 0.8);
  EXPECT_EQ(c.devices[1].streaming->memory_bytes_per_s, 38e9);
  ASSERT_EQ(c.levels.size(), 2U);
  EXPECT_EQ(c.levels[0].group, 4);
  EXPECT_TRUE(c.levels[0].shared);
  EXPECT_FALSE(c.levels[0].half_duplex);
  EXPECT_TRUE(c.levels[1].half_duplex);
  EXPECT_FALSE(c.levels[1].by_reference);
  EXPECT_EQ(c.levels[1].bandwidth_bytes_per_s, 1.25e9);
  EXPECT_EQ(c.levels[1].latency_s, 2e-5);
}

TEST(ClusterToml, ReadsBackExactly) {
  const auto c = cluster_from_toml(whole, "c.toml");
  expect_equal(c, cluster_from_toml(to_toml(c), "c.toml"));
  auto other = flat_cluster(3, 1e9 / 3, 1e-6 / 7, 123456789.5);
  other.name = "a \\ \"name\" größe";
  other.levels[0].by_reference = true;
  other.devices[0].profile_name = "own.json";
  expect_equal(other, cluster_from_toml(to_toml(other), "c.toml"));
  EXPECT_EQ(to_toml(cluster_from_toml(to_toml(other), "c.toml")), to_toml(other));
}

TEST(ClusterToml, NothingIsWrittenThatIsNotRight) {
  EXPECT_THAT(refusal([] { to_toml(flat_cluster(3, 0)); }), HasSubstr("bandwidth_bytes_per_s is 0"));
}

TEST(ClusterToml, ByteOrderMarkAndCarriageReturnsAreFine) {
  std::string text = "\xef\xbb\xbf";
  for (const auto c : whole)
    text += c == '\n' ? "\r\n" : std::string(1, c);
  expect_equal(cluster_from_toml(whole, "c.toml"), cluster_from_toml(text, "c.toml"));
}

TEST(ClusterToml, TheExamplesAreRight) {
  int examples = 0;
  for (const auto& file : std::filesystem::directory_iterator(PENSTOCK_EXAMPLE_CLUSTERS)) {
    std::ifstream in(file.path());
    std::ostringstream text;
    text << in.rdbuf();
    cluster c;
    EXPECT_EQ(refusal([&] { c = cluster_from_toml(text.str(), file.path().filename()); }), "");
    EXPECT_FALSE(c.name.empty()) << file.path();
    EXPECT_GT(c.device_count(), 1) << file.path();
    expect_equal(c, cluster_from_toml(to_toml(c), "c.toml"));
    ++examples;
  }
  EXPECT_GE(examples, 6);
}

TEST(ClusterToml, TextThatIsNoTomlIsRefusedByLine) {
  EXPECT_THAT(refusal_with("count = 4", "count = = 4"), StartsWith("c.toml:6: this is no TOML: "));
  EXPECT_THAT(refusal_with("\"v100\"", "\"v100"), StartsWith("c.toml:5: this is no TOML: "));
  EXPECT_THAT(refusal_with("count = 4", "count = 4\ncount = 5"), HasSubstr("this is no TOML: "));
  EXPECT_THAT(refusal_with("[device.streaming]", "[device.streaming"), HasSubstr("this is no TOML: "));
  EXPECT_THAT(refusal_of("\x7f"
                         "ELF\x02"),
              StartsWith("c.toml: found a program, wanted a cluster's TOML"));
  EXPECT_THAT(refusal_of(std::string("a = 1\0", 6)), HasSubstr("the file is no text"));
  EXPECT_THAT(refusal_of("a = '\xff'"), HasSubstr("the file is no text")); // toml11 reads out of bounds here
  EXPECT_THAT(refusal_of("{\"name\": \"lab\"}"), HasSubstr("this is no TOML"));
}

TEST(ClusterToml, EmptyAndCutOffTextsAreRefused) {
  EXPECT_EQ(refusal_of(""), "c.toml: the cluster has no devices");
  EXPECT_EQ(refusal_of("\n# nothing\n"), "c.toml: the cluster has no devices");
  const auto last_link = whole.rfind("bandwidth"); // from here on what is left may be a cluster
  for (std::size_t size = 0; size < last_link; ++size)
    EXPECT_NE(refusal_of(whole.substr(0, size)), "") << size;
}

TEST(ClusterToml, WhatTheLibraryWouldFollowWithoutEndIsRefused) {
  EXPECT_THAT(refusal_of("a = " + std::string(100'000, '[')), HasSubstr("brackets are open"));
  std::string tables = "a = ";
  for (int i = 0; i < 50'000; ++i)
    tables += "{a=";
  EXPECT_THAT(refusal_of(tables), HasSubstr("brackets are open"));
  std::string dots = "a";
  for (int i = 0; i < 50'000; ++i)
    dots += ".a";
  EXPECT_THAT(refusal_of(dots + " = 1"), HasSubstr("more than 64 dots"));
  EXPECT_THAT(refusal_of("[" + dots + "]"), HasSubstr("more than 64 dots"));
  EXPECT_THAT(refusal_of(std::string(300'000, '#')), HasSubstr("the file has 300000 bytes"));
  EXPECT_THAT(refusal_of("name = \"\\ud800\""), HasSubstr("'\\ud800' is no character"));
  EXPECT_THAT(refusal_of("name = \"\\Uffffffff\""), HasSubstr("is no character"));
}

TEST(ClusterToml, BracketsInTextsAndCommentsDoNotCount) {
  const std::string many(100, '[');
  const auto text = replaced(whole, "name = \"lab \\\"1\\\"\"", "name = \"\\\"" + many + "\" # " + many);
  EXPECT_EQ(cluster_from_toml(text, "c.toml").name, "\"" + many);
  EXPECT_EQ(cluster_from_toml(replaced(whole, "\"lab \\\"1\\\"\"", "'''\n" + many + "'''"), "c.toml").devices.size(),
            2U);
}

TEST(ClusterToml, KeysAndTablesAreKnownOnes) {
  EXPECT_EQ(refusal_with("latency_s = 5e-6", "latncy_s = 5e-6"),
            "c.toml:24: link[0] has the unknown key 'latncy_s' (did you mean 'latency_s'?)");
  EXPECT_EQ(refusal_with("name =", "nmae ="),
            "c.toml:2: the cluster has the unknown key 'nmae' (did you mean 'name'?)");
  EXPECT_THAT(refusal_with("[[device]]", "[[devices]]"), HasSubstr("did you mean 'device'?"));
  EXPECT_THAT(refusal_with("clock_hz", "clock_mhz"),
              HasSubstr("device[1].streaming has no 'clock_hz', but 'clock_mhz' (did you mean 'clock_hz'?)"));
  EXPECT_THAT(refusal_with("count = 4\n", ""), HasSubstr("device[0] has no 'count'"));
  EXPECT_THAT(refusal_with("type = \"board\"\n", ""), HasSubstr("device[1] has no 'type'"));
  EXPECT_THAT(refusal_with("bandwidth_bytes_per_s = 10e9\n", ""), HasSubstr("link[0] has no 'bandwidth_bytes_per_s'"));
}

TEST(ClusterToml, TypesAreChecked) {
  EXPECT_EQ(refusal_with("count = 4", "count = 4.0"), "c.toml:6: device[0].count is 4, wanted an integer");
  EXPECT_EQ(refusal_with("speed = 1", "speed = \"fast\""), "c.toml:8: device[0].speed is 'fast', wanted a number");
  EXPECT_EQ(refusal_with("speed = 1", "speed = true"), "c.toml:8: device[0].speed is true, wanted a number");
  EXPECT_EQ(refusal_with("shared = true", "shared = 1"), "c.toml:25: link[0].shared is 1, wanted true or false");
  EXPECT_EQ(refusal_with("type = \"v100\"", "type = [1]"), "c.toml:5: device[0].type is an array, wanted a text");
  EXPECT_EQ(refusal_with("type = \"v100\"", "type = 1979-05-27"),
            "c.toml:5: device[0].type is a date or time, wanted a text");
  EXPECT_THAT(refusal_of("[device]\ntype = \"v100\"\ncount = 1\n"), HasSubstr("device is a table, wanted [[device]]"));
  EXPECT_THAT(refusal_of("device = [1, 2]\n"), HasSubstr("device[0] is 1, wanted a table"));
  EXPECT_THAT(refusal_with("count = 4", "count = 99999999999"), HasSubstr("count is 99999999999"));
}

TEST(ClusterToml, NumbersOutOfRangeAreRefused) {
  EXPECT_EQ(refusal_with("count = 4", "count = -4"), "c.toml: device type 'v100': count is -4, wanted 1 to 65536");
  EXPECT_THAT(refusal_with("bandwidth_bytes_per_s = 10e9", "bandwidth_bytes_per_s = 0"),
              HasSubstr("link 0: bandwidth_bytes_per_s is 0"));
  for (const std::string bad : {"nan", "inf", "-inf", "1e400", "-1.0", "99999999999999999999999"})
    EXPECT_THAT(refusal_with("memory_bytes = 16000000000", "memory_bytes = " + bad), HasSubstr("memory_bytes is "))
        << bad;
  EXPECT_EQ(refusal_with("group = 2", "group = 3"),
            "c.toml: the groups of the links join 4 x 3 = 12 devices, and the cluster has 8");
  EXPECT_EQ(refusal_with("type = \"board\"", "type = \"v100\""), "c.toml: device type 'v100' is there twice");
}

TEST(ClusterToml, ATypeSaysOnceHowFastItIs) {
  EXPECT_THAT(refusal_with("threads = 2", "profile = \"v100.json\""), HasSubstr("two of speed, profile and streaming"));
  EXPECT_EQ(
      cluster_from_toml(replaced(whole, "speed = 1", "profile = \"v100.json\""), "c.toml").devices[0].profile_name,
      "v100.json");
}

TEST(ClusterToml, MutatedFilesAreReadOrRefusedAndNothingElse) {
  std::mt19937 random(13);
  int read = 0;
  for (int round = 0; round < 4'000; ++round) {
    const auto text = mutated(whole, random);
    cluster c;
    if (!refusal([&] { c = cluster_from_toml(text, "c.toml"); }).empty()) continue;
    ++read;
    ASSERT_EQ(refusal([&] { check_cluster(c); }), "") << text;
    expect_equal(c, cluster_from_toml(to_toml(c), "c.toml"));
  }
  EXPECT_GT(read, 100);
  EXPECT_LT(read, 3'000);
}

} // namespace
} // namespace penstock::planner
