// Events as JSON. A number that is not finite becomes null, since JSON has no word for it.
#include "apps/runner/metrics_file.hpp"

#include "kernels/check.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>

namespace penstock::apps {

namespace {

using nlohmann::ordered_json;

void put_shown(const std::vector<shown_value>& shown, ordered_json& line) {
  for (const auto& s : shown)
    line[s.name] = s.value;
}

ordered_json evaluation_json(const actors::evaluation& e) {
  ordered_json line{{"loss", e.loss}};
  put_shown(e.shown, line);
  line["samples"] = e.samples;
  return line;
}

template <class Member>
ordered_json per_stage(const actors::run_summary& summary, Member member) {
  auto list = ordered_json::array();
  for (const auto& stage : summary.stages)
    list.push_back(stage.*member);
  return list;
}

template <class Get>
ordered_json per_planned_stage(const actors::run_summary& summary, Get get) {
  auto list = ordered_json::array();
  for (const auto& stage : summary.plan->stages)
    list.push_back(get(stage));
  return list;
}

ordered_json plan_json(const planner::execution_plan& p) {
  ordered_json plan{{"schedule", p.schedule}, {"microbatches", p.microbatches}, {"threads", p.threads}};
  if (!p.first_active.empty()) plan["frozen_until"] = p.first_active;
  for (const auto& stage : p.stages) {
    plan["replicas"].push_back(stage.replicas);
    plan["in_flight"].push_back(stage.in_flight);
    plan["update_lag"].push_back(stage.update_lag);
    plan["layers"].push_back(planner::layers_text(stage));
  }
  return plan;
}

// Those of this leg, in order.
ordered_json plan_changes_json(const std::vector<actors::taken_change>& changes) {
  auto list = ordered_json::array();
  for (const auto& change : changes)
    list.push_back({{"step", change.step},
                    {"seconds", change.seconds},
                    {"bytes_moved", change.bytes_moved},
                    {"plan", plan_json(*change.plan)}});
  return list;
}

// The shortest decimal that is this float: 0.01 and not 0.009999999776.
double shortest(float value) {
  std::array<char, 32> text{};
  const auto* end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double number = 0;
  std::from_chars(text.data(), end, number);
  return number;
}

ordered_json shortest(const std::vector<float>& values) {
  auto list = ordered_json::array();
  for (const float value : values)
    list.push_back(shortest(value));
  return list;
}

// "2026-03-01T12:34:56Z".
std::string time_text(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

ordered_json data_json(const run_facts& f) {
  ordered_json data{{"data", f.options.data}, {"train_samples", f.run.data.train->size()}};
  if (f.run.data.test) data["test_samples"] = f.run.data.test->size();
  if (const auto& c = f.run.data.conversion)
    data.update(ordered_json{{"mean", shortest(c->values.mean)},
                             {"deviation", shortest(c->values.deviation)},
                             {"channels", c->channels},
                             {"resize", c->resize},
                             {"augmentation", c->augmentation}});
  return data;
}

// What was asked for.
ordered_json facts_json(const run_facts& f) {
  const auto& run = f.run.options;
  ordered_json seconds = ordered_json::object();
  for (const auto& [part, sum] : f.seconds_by_part)
    seconds[part] = sum;
  return {{"version", PENSTOCK_VERSION},
          {"model", f.run.inputs.model_options},
          {"input", data_json(f)},
          {"batch", run.batch},
          {"epochs", run.epochs},
          {"optimizer", run.optimizer.name},
          {"lr", shortest(run.lr.base)},
          {"lr_schedule", f.options.lr_schedule},
          {"momentum", shortest(run.optimizer.momentum)},
          {"nesterov", run.optimizer.nesterov},
          {"weight_decay", shortest(run.optimizer.weight_decay)},
          {"label_smoothing", shortest(run.label_smoothing)},
          {"clip_norm", run.clip_norm},
          {"clip_stage_norm", run.clip_stage_norm},
          {"seed", run.seed},
          {"processes", f.processes},
          {"started", time_text(f.started)},
          {"ended", time_text(std::chrono::system_clock::now())},
          {"seconds_by_part", seconds}};
}

ordered_json summary_json(const actors::run_summary& s, const run_facts& facts) {
  using actors::stage_report;
  ordered_json line{{"event", "summary"},
                    {"end", s.end == actors::run_end::finished ? "finished" : "interrupted"},
                    {"steps", s.steps},
                    {"total_steps", s.total_steps},
                    {"resumed_after", s.resumed_after},
                    {"seconds", s.seconds},
                    {"samples_per_s", s.samples_per_s},
                    {"steady_samples_per_s", s.steady_samples_per_s},
                    {"step_seconds", s.step_seconds},
                    {"weights_sha256", s.weights_sha256},
                    {"state_sha256", s.state_sha256},
                    {"schedule", s.plan->schedule},
                    {"microbatches", s.plan->microbatches},
                    {"replicas", per_planned_stage(s, [](const auto& stage) { return stage.replicas; })},
                    {"in_flight", per_planned_stage(s, [](const auto& stage) { return stage.in_flight; })},
                    {"update_lag", per_planned_stage(s, [](const auto& stage) { return stage.update_lag; })},
                    {"layers", per_planned_stage(s, planner::layers_text)},
                    {"updates", per_stage(s, &stage_report::updates)},
                    {"weight_bytes", per_stage(s, &stage_report::weight_bytes)},
                    {"peak_weight_bytes", per_stage(s, &stage_report::peak_weight_bytes)},
                    {"peak_memory_bytes", per_stage(s, &stage_report::peak_memory_bytes)},
                    {"parameters", s.parameters},
                    {"frozen_parameters", s.frozen_parameters},
                    {"drains", s.drains},
                    {"plan_changes", plan_changes_json(s.plan_changes)},
                    {"changed_on_resume", s.changes},
                    {"threads", s.plan->threads},
                    {"instruction_set", s.instruction_set},
                    {"library", s.compute_library},
                    {"trace_dropped", s.trace_dropped}};
  if (s.evaluation) {
    line["evaluation"] = evaluation_json(*s.evaluation);
    line["evaluated_after"] = s.evaluated_after;
  }
  if (!s.plan->first_active.empty()) line["frozen_until"] = s.plan->first_active;
  line.update(facts_json(facts));
  return line;
}

std::string text_of(const ordered_json& line) {
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace

metrics_file::metrics_file(std::filesystem::path file, metrics_start start) : path_(std::move(file)) {
  out_.open(path_, start == metrics_start::appended ? std::ios::app : std::ios::trunc);
  if (!out_) throw error("--metrics: cannot write " + path_.string() + ": " + std::strerror(errno));
}

void metrics_file::step(const actors::step_event& e) {
  ordered_json line{{"event", "step"}, {"step", e.step}, {"epoch", e.epoch + 1}, {"loss", e.loss}};
  put_shown(e.shown, line);
  line["lr"] = shortest(e.learning_rate);
  line["samples_per_s"] = e.samples_per_s;
  for (const auto& r : e.rates)
    line[r.name + "_per_s"] = r.value;
  write(text_of(line));
}

void metrics_file::eval(const actors::eval_event& e) {
  ordered_json line{{"event", "eval"}, {"epoch", e.epoch}, {"step", e.step}};
  line.update(evaluation_json(e.found));
  write(text_of(line));
}

void metrics_file::summary(const actors::run_summary& s, const run_facts& facts) {
  write(text_of(summary_json(s, facts)));
}

void metrics_file::write(const std::string& line) {
  if (broken_) return;
  errno = 0;
  out_ << line << '\n' << std::flush;
  if (out_) return;
  broken_ = true;
  throw error("--metrics: cannot write " + path_.string() + ": " + std::strerror(errno != 0 ? errno : EIO));
}

} // namespace penstock::apps
