// Notes as JSON: they are few and small.
#include "actors/ranks/note_text.hpp"

#include "kernels/check.hpp"

#include <nlohmann/json.hpp>

#include <limits>

namespace penstock::actors {

using nlohmann::json;

std::string encode(const note& n) {
  const auto& m = n.metrics;
  return json{static_cast<int>(n.about),
              n.from,
              n.stretch,
              n.number,
              m.loss_sum,
              m.samples,
              m.correct_top1,
              m.correct_top5,
              n.text}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

note decode_note(std::string_view text) {
  try {
    const auto j = json::parse(text);
    const int about = j.at(0);
    if (about < 0 || about > static_cast<int>(note::subject::description)) throw error("[coordinator] an unknown note");
    note n{static_cast<note::subject>(about), j.at(1), j.at(2), j.at(3), {}, j.at(8)};
    n.metrics.loss_sum = j.at(4).is_null() ? std::numeric_limits<double>::quiet_NaN() : j.at(4).get<double>();
    n.metrics.samples = j.at(5);
    n.metrics.correct_top1 = j.at(6);
    n.metrics.correct_top5 = j.at(7);
    return n;
  } catch (const json::exception&) {
    throw error("[coordinator] a note from another rank cannot be read");
  }
}

} // namespace penstock::actors
