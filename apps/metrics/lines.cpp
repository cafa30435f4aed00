// Splits text into lines, and refuses what is no text.
#include "apps/metrics/lines.hpp"

#include "apps/text/unicode.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::apps {

std::vector<std::string> lines_of(std::string_view text, const std::string& file) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto at = unicode::find_bad_utf8(line);
    if (at != std::string_view::npos)
      throw usage_error(file + ": line " + std::to_string(lines.size() + 1) + ": byte " + std::to_string(at + 1) +
                        " is no UTF-8, wanted text in UTF-8");
    lines.emplace_back(line);
  }
  if (lines.empty()) throw usage_error(file + ": found no lines, wanted at least one");
  return lines;
}

} // namespace penstock::apps
