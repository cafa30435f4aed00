// `penstock schedule`: plays a schedule under a virtual clock and draws it.
#include "apps/runner/options.hpp"
#include "apps/runner/text_table.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "planner/check_schedule.hpp"
#include "planner/draw_timeline.hpp"
#include "planner/simulate.hpp"
#include "tools/commands.hpp"
#include "tools/schedule_size.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace penstock::tools {

namespace {

struct time_texts {
  std::string forward = "1";
  std::string backward = "2";
  std::string weight = "half"; // of the backward
  std::string update = "0";
  std::string send = "0";
};

double parse_time(const std::string& option, const std::string& word) {
  double value = 0;
  const auto [rest, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (fault != std::errc{} || rest != word.data() + word.size() || !std::isfinite(value) || value < 0)
    throw usage_error(option + ": found " + in_quotes(word) + ", wanted numbers of at least 0");
  return value;
}

// One number for all stages, or one per stage.
std::vector<double> parse_times(const std::string& option, const std::string& text, std::size_t stages) {
  std::vector<double> times;
  for (const auto& word : apps::parse_words(option, text))
    times.push_back(parse_time(option, word));
  if (times.size() == 1) times.assign(stages, times.front());
  if (times.size() != stages)
    throw usage_error(option + ": found " + std::to_string(times.size()) + " times, wanted one, or one for each of " +
                      std::to_string(stages) + " stages");
  return times;
}

std::vector<planner::stage_times> read_times(const time_texts& texts, std::size_t stages) {
  const auto forward = parse_times("--forward-time", texts.forward, stages);
  const auto backward = parse_times("--backward-time", texts.backward, stages);
  const auto weight =
      texts.weight == "half" ? std::vector<double>() : parse_times("--weight-time", texts.weight, stages);
  const auto update = parse_times("--update-time", texts.update, stages);
  const auto send = parse_times("--send-time", texts.send, stages);
  std::vector<planner::stage_times> times;
  for (std::size_t s = 0; s < weight.size(); ++s)
    if (weight[s] > backward[s])
      throw usage_error("--weight-time: found " + std::to_string(weight[s]) + " for stage " + std::to_string(s) +
                        ", wanted at most its --backward-time, " + std::to_string(backward[s]));
  for (std::size_t s = 0; s < stages; ++s)
    times.push_back({forward[s], backward[s], update[s], send[s], send[s], weight.empty() ? -1 : weight[s]});
  return times;
}

std::string describe(const planner::schedule& s, const planner::simulation& run) {
  std::vector<std::vector<std::string>> rows{{"stage", "replicas", "K", "versions", "busy", "peak in flight"}};
  for (std::size_t i = 0; i < s.stages.size(); ++i)
    rows.push_back({std::to_string(i), std::to_string(s.stages[i].replicas), std::to_string(s.stages[i].credit),
                    std::to_string(s.stages[i].readable_versions), apps::percent_text(run.busy[i], run.makespan),
                    std::to_string(run.peak_in_flight[i])});
  return apps::text_table(rows);
}

} // namespace

int schedule_command(std::span<const std::string> arguments) {
  apps::schedule_texts texts;
  time_texts times;
  std::int64_t minibatches = 8;
  int columns = 0;
  apps::command_line line("penstock schedule", "Draws what each stage replica does when, under a virtual clock.");
  line.group("Schedule");
  apps::declare_schedule_options(line, texts);
  line.whole("--minibatches", minibatches, 1, 10'000'000, "Minibatches from start to drain");
  line.group("Times of one micro-batch: one number, or one per stage with commas");
  line.text("--forward-time", times.forward, "T", "Forward");
  line.text("--backward-time", times.backward, "T", "Backward");
  line.text("--weight-time", times.weight, "T", "The part of it that makes weight gradients, where it is split");
  line.text("--update-time", times.update, "T", "Update");
  line.text("--send-time", times.send, "T", "Latency between stages, each way");
  line.group("Picture");
  line.whole("--columns", columns, 10, 100'000, "Width of the picture [the terminal's, else 110]");
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  const auto schedule =
      planner::resolve_schedule(actors::schedule_request_of(apps::read_schedule_options(texts), minibatches));
  check_schedule_size(schedule, minibatches);
  if (const auto fault = planner::check_schedule(schedule)) throw error(*fault);
  const auto run = planner::simulate(schedule, read_times(times, schedule.stages.size()));
  std::printf("%s: %lld minibatch%s of %d micro-batch%s, bubble %s\n\n%s\n%s", schedule.name.c_str(),
              static_cast<long long>(minibatches), minibatches == 1 ? "" : "es", schedule.microbatches,
              schedule.microbatches == 1 ? "" : "es", apps::percent_text(run.bubble(), 1).c_str(),
              planner::draw_timeline(planner::timeline_of(run),
                                     columns > 0 ? columns : apps::picture_columns(schedule.stages.size()),
                                     rows_of(run))
                  .c_str(),
              describe(schedule, run).c_str());
  return 0;
}

} // namespace penstock::tools
