// The other lost ranks travel as decimal numbers with commas.
#include "transport/control/verdict.hpp"

#include "kernels/check.hpp"
#include "transport/control/words.hpp"

#include <charconv>

namespace penstock::transport {

frame frame_of(const job_failure& cause) {
  frame f{.kind = cause.lost ? frame_kind::lost : frame_kind::failed, .rank = cause.rank, .payload = cause.text};
  for (const int rank : cause.also_lost) {
    const auto number = (f.name.empty() ? "" : ",") + std::to_string(rank);
    if (f.name.size() + number.size() > max_name_bytes) break;
    f.name += number;
  }
  return f;
}

job_failure failure_of(const frame& f) {
  job_failure cause{
      .rank = f.rank, .lost = f.kind == frame_kind::lost, .text = one_line(f.payload, max_text_bytes), .also_lost = {}};
  const char* at = f.name.data();
  const char* const end = at + f.name.size();
  while (at != end) {
    const auto [next, failed] = std::from_chars(at, end, cause.also_lost.emplace_back());
    if (failed != std::errc{} || (next != end && (*next != ',' || next + 1 == end)))
      throw error("lost ranks named '" + one_line(f.name, max_name_bytes) + "'");
    at = next == end ? end : next + 1;
  }
  return cause;
}

} // namespace penstock::transport
