// The table of schedules and the search for one by name.
#include "planner/presets.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock::planner {

namespace {

/// Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

} // namespace

const std::vector<preset>& presets() {
  static const std::vector<preset> table{
      {.name = "model-parallel", .credit = credit_default::one},
      {.name = "data-parallel"},
      {.name = "gpipe", .order = action_order::all_forwards_first, .credit = credit_default::whole_minibatch},
      {.name = "1f1b"},
      {.name = "pipedream", .flush = flush_point::drain, .unit = update_unit::replica_group},
      {.name = "pipedream-vertical-sync",
       .flush = flush_point::drain,
       .unit = update_unit::replica_group,
       .versions = version_rule::vertical},
      {.name = "pipedream-naive",
       .flush = flush_point::drain,
       .unit = update_unit::replica_group,
       .versions = version_rule::newest_for_backward},
      {.name = "2bw", .flush = flush_point::drain, .unit = update_unit::minibatch_after_next},
      {.name = "interleaved", .order = action_order::chunks_in_turn, .credit = credit_default::warm_up},
      {.name = "zb-h1", .splits_backward = true},
      {.name = "zb-h2", .credit = credit_default::doubled, .splits_backward = true},
  };
  return table;
}

const preset& find_preset(std::string_view name) {
  const auto& all = presets();
  if (const auto found = std::find_if(all.begin(), all.end(), [&](const preset& p) { return p.name == name; });
      found != all.end())
    return *found;
  const auto nearest = std::min_element(all.begin(), all.end(), [&](const preset& a, const preset& b) {
    return edit_distance(name, a.name) < edit_distance(name, b.name);
  });
  std::string known;
  for (const auto& p : all)
    known += (known.empty() ? "" : ", ") + std::string(p.name);
  throw std::invalid_argument("unknown schedule '" + std::string(name.substr(0, 80)) + "': did you mean '" +
                              std::string(nearest->name) + "'? Known: " + known);
}

} // namespace penstock::planner
