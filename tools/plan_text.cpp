// Tables of a plan.
#include "tools/plan_text.hpp"

#include "apps/runner/text_table.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace penstock::tools {

namespace {

std::string with_unit(double value, const char* unit) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, unit);
  return text;
}

std::string times_text(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", ratio);
  return text;
}

/// "4,3,2,1"; of a long list both ends.
std::string list_text(const std::vector<std::int64_t>& values) {
  constexpr std::size_t most = 6;
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values.size() > most && i == most / 2) {
      text += ",..";
      i = values.size() - most / 2;
    }
    text += (text.empty() ? "" : ",") + std::to_string(values[i]);
  }
  return text;
}

constexpr std::size_t most_of_stages = 80; // characters; of longer ones the middle is left out

std::vector<std::int64_t> in_flight_of(const planner::plan& p) {
  std::vector<std::int64_t> in_flight;
  for (const auto& stage : p.stages)
    in_flight.push_back(stage.in_flight);
  return in_flight;
}

bool lags(const planner::plan& p) {
  return std::any_of(p.stages.begin(), p.stages.end(), [](const auto& stage) { return stage.update_lag > 0; });
}

/// ", update lag 1,0: weights up to 2,0 updates old"; nothing where nothing lags.
std::string lag_text(const planner::plan& p) {
  if (!lags(p)) return "";
  std::vector<std::int64_t> lag, staleness;
  for (const auto& stage : p.stages) {
    lag.push_back(stage.update_lag);
    staleness.push_back(stage.in_flight - 1 + stage.update_lag);
  }
  return ", update lag " + list_text(lag) + ": weights up to " + list_text(staleness) + " updates old";
}

std::string stage_table(const planner::plan& p) {
  std::vector<std::vector<std::string>> rows{{"stage", "layers", "replicas", "K", "lag", "recompute", "forward",
                                              "backward", "update", "all-reduce", "send", "busy", "memory"}};
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const auto& stage = p.stages[s];
    std::vector<std::string> row{std::to_string(s),
                                 stage.first_layer == stage.last_layer ? stage.first_layer
                                                                       : stage.first_layer + ".." + stage.last_layer,
                                 std::to_string(stage.replicas),
                                 std::to_string(stage.in_flight),
                                 std::to_string(stage.update_lag),
                                 stage.recompute ? "yes" : "no"};
    if (p.predicted) {
      const auto& made = p.predicted->stages[s];
      for (const auto seconds : {made.forward_seconds, made.backward_seconds, made.update_seconds,
                                 made.all_reduce_seconds, made.send_seconds})
        row.push_back(seconds_text(seconds));
      row.push_back(apps::percent_text(made.busy, 1));
      row.push_back(bytes_text(made.memory.total));
    }
    row.resize(rows.front().size(), "-");
    rows.push_back(std::move(row));
  }
  if (!lags(p))
    for (auto& row : rows)
      row.erase(row.begin() + 4);
  return apps::text_table(rows);
}

} // namespace

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds >= 1) return with_unit(seconds, "s");
  return seconds >= 1e-3 ? with_unit(1e3 * seconds, "ms") : with_unit(1e6 * seconds, "us");
}

std::string bytes_text(double bytes) {
  return apps::byte_text(static_cast<std::int64_t>(std::llround(std::min(bytes, 9e18))));
}

std::string describe_plan(const planner::plan& p) {
  auto text = (p.model.empty() ? "" : p.model + ": ") + describe_stages(p) + "\n" + p.schedule;
  if (p.batch > 0) text += ", batch " + std::to_string(p.batch);
  if (p.microbatches > 1) text += " in " + std::to_string(p.microbatches) + " micro-batches";
  text += ", in flight " + list_text(in_flight_of(p)) + lag_text(p) +
          (p.simulation_only ? ", for simulation only" : "") + "\n";
  if (p.predicted) {
    text += "step " + seconds_text(p.predicted->step_seconds) + ", " +
            times_text(p.predicted->speedup_over_one_device) + " one device, bubble " +
            apps::percent_text(p.predicted->bubble, 1) + ", " + bytes_text(p.predicted->bytes_per_minibatch) +
            " a minibatch (data parallelism " + bytes_text(p.predicted->data_parallel_bytes_per_minibatch) + ")\n";
    if (!p.predicted->binding.empty()) text += "bound by " + p.predicted->binding + "\n";
  }
  if (!p.reason.empty()) text += p.reason + "\n";
  if (p.runner_up)
    text += "runner-up: " + shortened(p.runner_up->text, most_of_stages) + ", " + p.runner_up->schedule +
            ", M = " + std::to_string(p.runner_up->microbatches) + ", " + seconds_text(p.runner_up->step_seconds) +
            (p.runner_up->rejected.empty() ? "" : ": " + p.runner_up->rejected) + "\n";
  return text + "\n" + stage_table(p);
}

std::string explain_plan(const planner::plan& p) {
  std::vector<std::vector<std::string>> rows{{"#", "stages", "schedule", "M", "K", "recompute", "step", "speed-up",
                                              "memory", "bubble", "bytes", "of DP", "bound by", "why not"}};
  const auto one_device = p.predicted ? p.predicted->step_seconds * p.predicted->speedup_over_one_device : 0;
  for (const auto& c : p.considered) {
    const bool ran = c.step_seconds > 0; // else it was refused before it was simulated
    rows.push_back({std::to_string(rows.size()), shortened(c.text, most_of_stages), c.schedule,
                    std::to_string(c.microbatches),
                    list_text(c.in_flight) + (c.update_lag.empty() ? "" : ", lag " + list_text(c.update_lag)),
                    c.recompute ? "yes" : "no", ran ? seconds_text(c.step_seconds) : "-",
                    ran && one_device > 0 ? times_text(one_device / c.step_seconds) : "-", bytes_text(c.peak_bytes),
                    ran ? apps::percent_text(c.bubble, 1) : "-", bytes_text(c.bytes_per_minibatch),
                    apps::percent_text(c.bytes_per_minibatch, c.data_parallel_bytes_per_minibatch),
                    c.binding.empty() ? "-" : c.binding, c.rejected.empty() ? "taken" : c.rejected});
  }
  return apps::text_table(rows);
}

} // namespace penstock::tools
