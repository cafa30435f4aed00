// Plan and summary as text.
#include "apps/runner/summary_text.hpp"

#include "apps/runner/plan_words.hpp"
#include "apps/runner/text_table.hpp"
#include "kernels/text_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace penstock::apps {

namespace {

std::string schedule_line(const actors::run_summary& s) {
  const auto& p = *s.plan;
  return fmt::format("schedule {}, {} micro-batch{} a minibatch, {} thread{} a worker, {}", p.schedule, p.microbatches,
                     p.microbatches == 1 ? "" : "es", p.threads, p.threads == 1 ? "" : "s", s.compute_library);
}

std::string stage_table(const actors::run_summary& s, bool measured) {
  const auto& stages = s.plan->stages;
  const bool lags = std::any_of(stages.begin(), stages.end(), [](const auto& p) { return p.update_lag > 0; });
  std::vector<std::vector<std::string>> rows{{"stage", "layers", "replicas", "K"}};
  if (lags) rows[0].emplace_back("lag");
  rows[0].emplace_back("weights");
  if (measured) rows[0].insert(rows[0].end(), {"peak weights", "peak memory", "updates"});
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto& planned = s.plan->stages[i];
    const auto& stage = s.stages[i];
    rows.push_back(
        {std::to_string(i), layers_text(planned), std::to_string(planned.replicas), std::to_string(planned.in_flight)});
    if (lags) rows.back().push_back(std::to_string(planned.update_lag));
    rows.back().push_back(byte_text(stage.weight_bytes));
    if (measured)
      rows.back().insert(rows.back().end(), {byte_text(stage.peak_weight_bytes), byte_text(stage.peak_memory_bytes),
                                             std::to_string(stage.updates)});
  }
  return text_table(rows);
}

std::string freeze_line(const actors::run_summary& s) {
  return s.freeze.empty() ? "" : s.freeze + "\n";
}

// Of which weights it is, where these are not the ones that the run ends with.
std::string evaluation_line(const actors::run_summary& s) {
  const auto of = s.evaluated_after == s.steps ? "" : fmt::format(" after step {}, not {}", s.evaluated_after, s.steps);
  return fmt::format("test{}: {}, {} samples\n", of, evaluation_text(*s.evaluation), s.evaluation->samples);
}

std::string rate_text(double samples_per_s) {
  return fmt::format("{:.{}f}", samples_per_s, samples_per_s < 9.95 ? 1 : 0);
}

std::string result_line(const actors::run_summary& s, const app_options& o) {
  if (o.run.eval_only) {
    const auto samples = s.evaluation ? s.evaluation->samples : 0;
    const auto rate = s.evaluation_seconds > 0 ? static_cast<double>(samples) / s.evaluation_seconds : 0;
    return fmt::format("done: {} samples evaluated in {}, {} samples/s\n", samples, duration_text(s.evaluation_seconds),
                       rate_text(rate));
  }
  const bool is_whole = s.end == actors::run_end::finished;
  auto text = is_whole ? "done: " + counted(s.steps, "step")
                       : fmt::format("interrupted: {} of {} steps", s.steps, s.total_steps);
  if (s.resumed_after > 0) text += fmt::format(", {} of them", s.steps - s.resumed_after);
  return text + fmt::format(" in {}, {} samples/s (steady {}, mean step {:.1f} ms)\n", duration_text(s.seconds),
                            rate_text(s.samples_per_s), rate_text(s.steady_samples_per_s), 1e3 * s.step_seconds);
}

std::string work_line(const app_options& o, std::int64_t steps_per_epoch, std::int64_t test_samples) {
  const auto& run = o.run;
  if (run.eval_only)
    return fmt::format("evaluation only, of {} samples, {} at a time\n", test_samples,
                       run.eval_batch > 0 ? run.eval_batch : run.batch);
  if (run.steps > 0) return counted(run.steps, "step") + fmt::format(" of {} samples\n", run.batch);
  return fmt::format("{} of {} of {} samples\n", counted(run.epochs, "epoch"), counted(steps_per_epoch, "step"),
                     run.batch);
}

// The first, the last, and how many: there may be thousands.
std::string drains_text(const std::vector<std::int64_t>& drains) {
  constexpr std::size_t shown = 6;
  auto text = fmt::format("{}", fmt::join(drains.begin(), drains.begin() + std::min(drains.size(), shown), ", "));
  if (drains.size() > shown) text += fmt::format(", ... {} ({} of them)", drains.back(), drains.size());
  return text;
}

// What decides the numbers besides the options.
std::string history_lines(const actors::run_summary& s) {
  std::string text;
  if (s.drains.size() > 1) text += fmt::format("{:<15} after steps {}\n", "drains", drains_text(s.drains));
  text += changes_text(s.plan_changes);
  for (const auto& change : s.changes)
    text += fmt::format("{:<15} {}\n", "since resumed", change);
  return text;
}

std::string output_lines(const app_options& o, std::int64_t dropped) {
  std::string text;
  const auto line = [&](const char* what, const std::filesystem::path& path, const std::string& more = "") {
    if (!path.empty()) text += fmt::format("{:<15} {}{}\n", what, path.string(), more);
  };
  line("weights", o.run.save_weights);
  line("gradients", o.run.save_gradients);
  line("checkpoint", o.run.checkpoint);
  line("metrics", o.metrics);
  line("trace", o.run.trace, dropped > 0 ? fmt::format("  ({} records dropped)", dropped) : "");
  return text;
}

} // namespace

std::string changes_text(const std::vector<actors::plan_change>& changes) {
  std::string text;
  for (const auto& change : changes)
    text += fmt::format("{:<15} after step {}: {}\n", "change of plan", change.step, plan_line(*change.plan));
  return text;
}

std::string changes_text(const std::vector<actors::taken_change>& changes) {
  std::string text;
  for (const auto& change : changes) {
    text += changes_text(std::vector<actors::plan_change>{change});
    text.back() = ';';
    text += fmt::format(" it took {:.3g} s", change.seconds);
    if (change.bytes_moved > 0) text += fmt::format(" and moved {}", byte_text(change.bytes_moved));
    text += '\n';
  }
  return text;
}

std::string plan_text(const actors::run_summary& plan, const app_options& options, const work_counts& counts) {
  return options.model + ": " + schedule_line(plan) + "\n" +
         work_line(options, counts.steps_per_epoch, counts.test_samples) + stage_table(plan, false) + freeze_line(plan);
}

std::string summary_text(const actors::run_summary& s, const app_options& o) {
  auto text = result_line(s, o);
  if (s.evaluation) text += evaluation_line(s);
  text += schedule_line(s) + "\n" + stage_table(s, true) + freeze_line(s);
  text += fmt::format("{:<15} {}\n{:<15} {}\n", "weights_sha256", s.weights_sha256, "state_sha256", s.state_sha256);
  return text + history_lines(s) + output_lines(o, s.trace_dropped);
}

} // namespace penstock::apps
