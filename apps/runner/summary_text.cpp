// Plan and summary as text.
#include "apps/runner/summary_text.hpp"

#include "apps/runner/text_table.hpp"

#include <fmt/format.h>

namespace penstock::apps {

namespace {

std::string schedule_line(const actors::run_summary& s) {
  return fmt::format("schedule {}, {} micro-batch{} a minibatch, {} thread{} a worker, {}", s.schedule, s.microbatches,
                     s.microbatches == 1 ? "" : "es", s.threads, s.threads == 1 ? "" : "s", s.library);
}

std::string stage_table(const actors::run_summary& s, bool measured) {
  std::vector<std::vector<std::string>> rows{{"stage", "layers", "replicas", "K", "weights"}};
  if (measured) rows[0].insert(rows[0].end(), {"peak weights", "peak memory", "updates"});
  for (const auto& stage : s.stages) {
    rows.push_back({std::to_string(rows.size() - 1), stage.layers, std::to_string(stage.replicas),
                    std::to_string(stage.credit), byte_text(stage.weight_bytes)});
    if (measured)
      rows.back().insert(rows.back().end(), {byte_text(stage.peak_weight_bytes), byte_text(stage.peak_memory_bytes),
                                             std::to_string(stage.updates)});
  }
  return text_table(rows);
}

std::string evaluation_line(const loss_metrics& m) {
  const auto samples = static_cast<double>(m.samples);
  return fmt::format("test: loss {:.4f}, top-1 {}, top-5 {}, {} samples\n", m.samples > 0 ? m.loss_sum / samples : 0,
                     percent_text(static_cast<double>(m.correct_top1), samples),
                     percent_text(static_cast<double>(m.correct_top5), samples), m.samples);
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

std::string plan_text(const actors::run_summary& plan, std::int64_t steps_per_epoch, const app_options& options) {
  auto text = options.model + ": " + schedule_line(plan) + "\n";
  text += options.run.steps > 0 ? fmt::format("{} steps of {} samples\n", options.run.steps, options.run.batch)
                                : fmt::format("{} epoch{} of {} steps of {} samples\n", options.run.epochs,
                                              options.run.epochs == 1 ? "" : "s", steps_per_epoch, options.run.batch);
  return text + stage_table(plan, false);
}

std::string summary_text(const actors::run_summary& s, const app_options& o) {
  auto text = fmt::format("{}: {} steps in {}, {:.0f} samples/s (steady {:.0f})\n",
                          s.end == actors::run_end::finished ? "done" : "interrupted", s.steps,
                          duration_text(s.seconds), s.samples_per_s, s.steady_samples_per_s);
  if (s.evaluation) text += evaluation_line(*s.evaluation);
  text += schedule_line(s) + "\n" + stage_table(s, true);
  text += fmt::format("{:<15} {}\n{:<15} {}\n", "weights_sha256", s.weights_sha256, "state_sha256", s.state_sha256);
  return text + output_lines(o, s.trace_dropped);
}

} // namespace penstock::apps
