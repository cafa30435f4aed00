// Text that comes from other processes, made harmless.
#include "transport/control/words.hpp"

#include <algorithm>

namespace penstock::transport {

std::string one_line(std::string_view text, std::size_t most) {
  std::string line(text.substr(0, most));
  if (text.size() > most) {
    // Not in the middle of a UTF-8 sequence.
    std::size_t end = most < 3 ? 0 : most - 3;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
      --end;
    line.resize(end);
    line += "...";
  }
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return line;
}

std::string text_of(std::chrono::milliseconds duration) {
  const auto ms = duration.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

} // namespace penstock::transport
