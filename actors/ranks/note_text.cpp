// Notes as JSON: they are few and small.
#include "actors/ranks/note_text.hpp"

#include "kernels/check.hpp"

#include <nlohmann/json.hpp>

#include <limits>

namespace penstock::actors {

using nlohmann::json;

namespace {

// What is not finite has no word in JSON.
double number_of(const json& j) {
  return j.is_null() ? std::numeric_limits<double>::quiet_NaN() : j.get<double>();
}

} // namespace

std::string encode(const note& n) {
  const auto& m = n.metrics;
  return json{static_cast<int>(n.about), n.from, n.stretch, n.number, m.samples, m.sums, m.counts, n.text}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

note decode_note(std::string_view text) {
  try {
    const auto j = json::parse(text);
    const int about = j.at(0);
    if (about < 0 || about > static_cast<int>(note::subject::description)) throw error("[coordinator] an unknown note");
    note n{static_cast<note::subject>(about), j.at(1), j.at(2), j.at(3), {}, j.at(7)};
    n.metrics.samples = j.at(4);
    for (std::size_t i = 0; i < n.metrics.sums.size(); ++i)
      n.metrics.sums[i] = number_of(j.at(5).at(i));
    for (std::size_t i = 0; i < n.metrics.counts.size(); ++i)
      n.metrics.counts[i] = number_of(j.at(6).at(i));
    return n;
  } catch (const json::exception&) {
    throw error("[coordinator] a note from another rank cannot be read");
  }
}

} // namespace penstock::actors
