// Splits text into lines, and refuses what is no text.
#include "apps/metrics/lines.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <utf8proc.h>

namespace penstock::apps {

namespace {

// The first byte that is no UTF-8, or the line's size.
std::size_t stray_byte(std::string_view line) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(line.data());
  for (std::size_t at = 0; at < line.size();) {
    utf8proc_int32_t code = 0;
    const auto used = utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(line.size() - at), &code);
    if (used <= 0) return at;
    at += static_cast<std::size_t>(used);
  }
  return line.size();
}

} // namespace

std::vector<std::string> lines_of(std::string_view text, const std::string& file) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto at = stray_byte(line);
    if (at != line.size())
      throw usage_error(file + ": line " + std::to_string(lines.size() + 1) + ": byte " + std::to_string(at + 1) +
                        " is no UTF-8, wanted text in UTF-8");
    lines.emplace_back(line);
  }
  if (lines.empty()) throw usage_error(file + ": found no lines, wanted at least one");
  return lines;
}

} // namespace penstock::apps
