// Predicted against measured.
#include "apps/runner/prediction_text.hpp"

#include "apps/runner/text_table.hpp"

#include <fmt/format.h>

namespace penstock::apps {

namespace {

std::string seconds_cell(double predicted, double measured) {
  return fmt::format("{:.1f} / {:.1f} ms", 1e3 * predicted, 1e3 * measured);
}

std::string ratio_cell(double predicted, double measured) {
  return measured > 0 ? fmt::format("{:.2f}", predicted / measured) : "-";
}

} // namespace

std::string prediction_text(const planner::prediction& predicted, const actors::run_summary& measured) {
  if (predicted.stages.size() != measured.stages.size()) return "";
  std::vector<std::vector<std::string>> rows{
      {"stage", "forward", "backward", "update", "ratio", "memory", "memory ratio"}};
  for (std::size_t i = 0; i < measured.stages.size(); ++i) {
    const auto& p = predicted.stages[i];
    const auto& m = measured.stages[i];
    const auto bytes = static_cast<std::int64_t>(p.memory.total);
    rows.push_back({std::to_string(i), seconds_cell(p.forward_seconds, m.forward_seconds),
                    seconds_cell(p.backward_seconds, m.backward_seconds),
                    seconds_cell(p.update_seconds, m.update_seconds),
                    ratio_cell(p.forward_seconds + p.backward_seconds, m.forward_seconds + m.backward_seconds),
                    byte_text(bytes) + " / " + byte_text(m.peak_memory_bytes),
                    ratio_cell(p.memory.total, static_cast<double>(m.peak_memory_bytes))});
  }
  return fmt::format("predicted / measured: step {} (mean of steady state), ratio {}; of stages, medians of a "
                     "micro-batch or update:\n{}",
                     seconds_cell(predicted.step_seconds, measured.step_seconds),
                     ratio_cell(predicted.step_seconds, measured.step_seconds), text_table(rows));
}

} // namespace penstock::apps
