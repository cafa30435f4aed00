// Amounts with units, and what is none.
#include "apps/runner/quantity.hpp"
#include "kernels/check.hpp"

#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

template <class Parse>
std::string refusal_of(Parse parse, const std::string& text) {
  try {
    parse("--some-option", text);
  } catch (const usage_error& fault) {
    return fault.what();
  }
  return "";
}

TEST(Quantity, OfBytesTakesThousandsAnd1024s) {
  const auto bytes = [](const std::string& text) { return parse_bytes("--memory", text); };
  EXPECT_EQ(bytes("0"), 0);
  EXPECT_EQ(bytes("16e9"), 16e9);
  EXPECT_EQ(bytes("1GB"), 1e9);
  EXPECT_EQ(bytes("1.5 kB"), 1500);
  EXPECT_EQ(bytes("16GiB"), 16.0 * (1 << 30));
  EXPECT_EQ(bytes("64MiB"), 64.0 * (1 << 20));
  EXPECT_EQ(bytes("2TB"), 2e12);
  EXPECT_EQ(bytes("7B"), 7);
}

TEST(Quantity, OfBandwidthTellsBitsFromBytes) {
  const auto rate = [](const std::string& text) { return parse_bandwidth("--bandwidth", text); };
  EXPECT_EQ(rate("1.25e9"), 1.25e9);
  for (const auto* text : {"10Gb", "10Gb/s", "10Gbps", "10 Gbit/s", "10gbit", "1.25GB/s", "1.25GB", "1250MBps"})
    EXPECT_EQ(rate(text), 1.25e9) << text;
  EXPECT_EQ(rate("1GiB/s"), 1 << 30);
}

TEST(Quantity, OfTimeTakesFractionsOfASecond) {
  const auto seconds = [](const std::string& text) { return parse_seconds("--latency", text); };
  EXPECT_EQ(seconds("0.5"), 0.5);
  EXPECT_DOUBLE_EQ(seconds("20us"), 2e-5);
  EXPECT_DOUBLE_EQ(seconds("3 ms"), 3e-3);
  EXPECT_DOUBLE_EQ(seconds("2s"), 2);
}

TEST(Quantity, ThatIsNoneIsRefusedByItsOption) {
  for (const auto* text :
       {"", " ", "GB", "-1GB", "nan", "inf", "1e16", "1 ", "1GX", "1GBB", "1Gi", "1kB/s", "0x10", "1G"})
    EXPECT_TRUE(refusal_of(parse_bytes, text).starts_with("--some-option: found '" + std::string(text) + "', wanted"))
        << text;
  for (const auto* text : {"", "0", "fast", "10G", "10Gb/h", "-10Gb", "1e16", "/s", "10/s"})
    EXPECT_TRUE(refusal_of(parse_bandwidth, text).starts_with("--some-option: found")) << text;
  for (const auto* text : {"", "-1", "1h", "1e9", "us"})
    EXPECT_TRUE(refusal_of(parse_seconds, text).starts_with("--some-option: found")) << text;
  EXPECT_NE(refusal_of(parse_bytes, "16Gb").find("a small b is bits"), std::string::npos);
  EXPECT_LT(refusal_of(parse_bytes, std::string(5000, 'x')).size(), 400U);
}

} // namespace
} // namespace penstock::apps
