// Checks a machine, plays the schedule on it, and says what a step takes.
#include "planner/machine.hpp"

#include "planner/check_schedule.hpp"
#include "planner/machine_player.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

namespace penstock::planner {

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& found, const std::string& wanted) {
  throw std::invalid_argument(what + " is " + found + ", wanted " + wanted);
}

void check_number(const std::string& what, double value) {
  if (!std::isfinite(value) || value < 0) refuse(what, std::to_string(value), "a finite number of at least 0");
}

void check_length(const std::string& what, const std::vector<double>& values, int microbatches) {
  if (values.size() != 1 && values.size() != static_cast<std::size_t>(microbatches))
    throw std::invalid_argument(what + " has " + std::to_string(values.size()) +
                                " values, wanted one or one for each of " + std::to_string(microbatches) +
                                " micro-batches");
}

void check_list(const std::string& what, const std::vector<double>& values, int microbatches) {
  check_length(what, values, microbatches);
  for (const auto value : values)
    check_number(what, value);
}

/// Devices that the links join; any number where there are no links.
std::int64_t check_links(const std::vector<machine_link>& links) {
  constexpr std::int64_t most_devices = 65'536; // as many as a schedule has replicas at most
  std::int64_t joined = 1;
  for (std::size_t l = 0; l < links.size(); ++l) {
    const auto level = "of level " + std::to_string(l);
    if (links[l].group < 1) refuse("group " + level, std::to_string(links[l].group), "at least 1");
    check_number("bandwidth " + level, links[l].bytes_per_second);
    check_number("latency " + level, links[l].latency_s);
    joined *= links[l].group;
    if (joined > most_devices) refuse("devices up to " + level, std::to_string(joined), "at most 65536");
  }
  return links.empty() ? most_devices : joined;
}

void check_weight_seconds(const machine_stage& stage, const std::string& name, int microbatches) {
  const auto what = "weight_seconds of " + name;
  check_list(what, stage.weight_seconds, microbatches);
  const auto of = [](const std::vector<double>& values, std::size_t m) { return values[values.size() == 1 ? 0 : m]; };
  for (std::size_t m = 0; m < std::max(stage.weight_seconds.size(), stage.backward_seconds.size()); ++m)
    if (const auto part = of(stage.weight_seconds, m), whole = of(stage.backward_seconds, m); part > whole)
      refuse(what, std::to_string(part), "at most the whole backward's " + std::to_string(whole));
}

void check_stage(const machine_stage& stage, const std::string& name, int replicas, int microbatches,
                 std::int64_t devices) {
  if (stage.devices.size() != static_cast<std::size_t>(replicas))
    throw std::invalid_argument(name + " has " + std::to_string(stage.devices.size()) + " devices, wanted " +
                                std::to_string(replicas) + ", one for each replica");
  for (const auto d : stage.devices)
    if (d < 0 || d >= devices) refuse("a device of " + name, std::to_string(d), "0 to " + std::to_string(devices - 1));
  check_list("forward_seconds of " + name, stage.forward_seconds, microbatches);
  check_list("backward_seconds of " + name, stage.backward_seconds, microbatches);
  if (!stage.weight_seconds.empty()) check_weight_seconds(stage, name, microbatches);
  if (!stage.delayed_bytes.empty()) check_list("delayed_bytes of " + name, stage.delayed_bytes, microbatches);
  if (!stage.weight_workspace_bytes.empty())
    check_list("weight_workspace_bytes of " + name, stage.weight_workspace_bytes, microbatches);
  check_list("output_bytes of " + name, stage.output_bytes, microbatches);
  check_list("kept_bytes of " + name, stage.kept_bytes, microbatches);
  check_list("workspace_bytes of " + name, stage.workspace_bytes, microbatches);
  if (!stage.unkept_output_bytes.empty())
    check_list("unkept_output_bytes of " + name, stage.unkept_output_bytes, microbatches);
  if (!stage.backward_workspace_bytes.empty())
    check_length("backward_workspace_bytes of " + name, stage.backward_workspace_bytes, microbatches);
  for (const auto bytes : stage.backward_workspace_bytes)
    if (!std::isfinite(bytes)) refuse("backward_workspace_bytes of " + name, std::to_string(bytes), "a finite number");
  check_number("accumulate_seconds of " + name, stage.accumulate_seconds);
  check_number("update_seconds of " + name, stage.update_seconds);
  check_number("activation_delay_s of " + name, stage.activation_delay_s);
  check_number("gradient_delay_s of " + name, stage.gradient_delay_s);
  check_number("all_reduce_bytes of " + name, stage.all_reduce_bytes);
  check_number("weight_bytes of " + name, stage.weight_bytes);
  check_number("gradient_bytes of " + name, stage.gradient_bytes);
  check_number("optimizer_bytes of " + name, stage.optimizer_bytes);
  check_number("state_bytes of " + name, stage.state_bytes);
  check_number("frozen_bytes of " + name, stage.frozen_bytes);
}

void check_options(const machine_options& options) {
  constexpr double most_jitter = 100; // beyond it the factors' own range overflows
  if (!(options.jitter >= 0 && options.jitter <= most_jitter))
    refuse("jitter", std::to_string(options.jitter), "0 to 100");
  for (const auto& slow : options.stragglers)
    if (!std::isfinite(slow.factor) || slow.factor <= 0)
      refuse("the factor of straggler device " + std::to_string(slow.device), std::to_string(slow.factor),
             "a finite number above 0");
}

void check_machine(const schedule& s, const machine& m, const machine_options& options) {
  if (m.stages.size() != s.stages.size())
    throw std::invalid_argument("the machine has " + std::to_string(m.stages.size()) + " stages, wanted " +
                                std::to_string(s.stages.size()));
  const auto devices = check_links(m.links);
  for (std::size_t i = 0; i < m.stages.size(); ++i)
    check_stage(m.stages[i], "stage " + std::to_string(i), s.stages[i].replicas, s.microbatches, devices);
  for (std::size_t i = 0; i < m.stages.size(); ++i)
    if (const auto position = static_cast<std::size_t>(position_of(s, static_cast<int>(i)));
        m.stages[i].devices != m.stages[position].devices)
      throw std::invalid_argument("stage " + std::to_string(i) + " has other devices than stage " +
                                  std::to_string(position) + ", whose workers host it");
  check_options(options);
  for (const auto& slow : options.stragglers)
    if (std::none_of(m.stages.begin(), m.stages.end(), [&](const machine_stage& stage) {
          return std::find(stage.devices.begin(), stage.devices.end(), slow.device) != stage.devices.end();
        }))
      refuse("a straggler", "device " + std::to_string(slow.device), "a device of some stage");
}

/// Minibatches that are in the pipeline at once.
std::int64_t filling_of(const schedule& s) {
  return s.synchronous ? 1 : (s.source_credit() + s.microbatches - 1) / s.microbatches;
}

/// Minibatches that pass before every stage waits for its updates as in steady state: the first of a lag's need none.
std::int64_t lagging_of(const schedule& s) {
  std::int64_t most = 0;
  for (const auto& stage : s.stages)
    most = std::max(most, stage.update_lag * stage.replicas);
  return most;
}

} // namespace

std::int64_t steady_minibatches(const schedule& s) {
  constexpr std::int64_t most = 4096;
  // All-reduces that take a little longer than a period use up a lag a little at a time.
  constexpr std::int64_t lags_used_up = 32;
  const auto round = std::max<std::int64_t>(1, dealing_period(s));
  // What frozen stages have done ahead is used up where they are the slower ones.
  const auto ahead = s.ahead > 0 ? 2 * ((s.source_credit() + s.microbatches - 1) / s.microbatches) : 0;
  if (s.synchronous) return std::min(most, (2 + ahead + round - 1) / round * round + 2 * round);
  const auto wanted = 4 * filling_of(s) + lags_used_up * lagging_of(s) + 4 * round;
  if (round > most) return std::min(most, wanted);
  return std::min(most / round, (wanted + round - 1) / round) * round; // every replica gets as many
}

void machine_player::note_steady_state() {
  const auto count = static_cast<std::int64_t>(done_.size());
  if (count == 0) return;
  result_.step_seconds = result_.makespan / static_cast<double>(count);
  // The last minibatches to enter leave an emptying pipeline, faster than the others.
  const auto last = count - 1 - (schedule_.synchronous ? 0 : filling_of(schedule_));
  const auto round = dealing_period(schedule_);
  const auto half = (count - 1) / 2;
  if (round == 0 || last - half < round) return;
  const auto measured = (last - half) / round * round;
  result_.step_seconds = (done_[static_cast<std::size_t>(last)] - done_[static_cast<std::size_t>(last - measured)]) /
                         static_cast<double>(measured);
  if (count % round == 0) result_.step_seconds = std::max(result_.step_seconds, busiest() / static_cast<double>(count));
}

/// Seconds for which the busiest device or channel works in all. A pipeline that holds more than it needs is faster for
/// a while than that allows.
double machine_player::busiest() const {
  std::vector<double> busy(devices_.size());
  for (std::size_t s = 0; s < stages_.size(); ++s)
    for (const auto device : machine_.stages[s].devices)
      busy[static_cast<std::size_t>(device)] += result_.busy[s];
  return std::max(links_.most_taken(), *std::max_element(busy.begin(), busy.end()));
}

machine_run run_machine(const schedule& s, const machine& m, const machine_options& options) {
  if (const auto fault = check_schedule(s)) throw std::logic_error(*fault);
  check_machine(s, m, options);
  return machine_player(s, m, options).run();
}

} // namespace penstock::planner
