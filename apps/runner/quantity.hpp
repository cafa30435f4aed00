// Amounts as people write them, with units: "16GiB", "10Gb/s", "20us".
#pragma once

#include <string>

namespace penstock::apps {

/// Bytes: a plain number, or one with kB, MB, GB, TB (thousands) or KiB, MiB, GiB, TiB (1,024s). From 0 to 1e15. Throws
/// usage_error that names `option`, what was found and what was wanted; a small b, which is bits, is pointed out.
double parse_bytes(const std::string& option, const std::string& text);

/// Bytes a second: a plain number, or one with B as above for bytes or b (bit) for bits, an eighth: "1.25GB/s",
/// "10Gb", "10Gbit/s", "100Mbps". From 1 to 1e15. Throws as parse_bytes().
double parse_bandwidth(const std::string& option, const std::string& text);

/// Seconds: a plain number, or one with s, ms, us or ns. From 0 to 1000. Throws as parse_bytes().
double parse_seconds(const std::string& option, const std::string& text);

} // namespace penstock::apps
