// Events as JSON. A number that is not finite becomes null, since JSON has no word for it.
#include "apps/runner/metrics_file.hpp"

#include "kernels/check.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>

namespace penstock::apps {

namespace {

using nlohmann::ordered_json;

double part(double of, std::int64_t all) {
  return all > 0 ? of / static_cast<double>(all) : 0;
}

ordered_json evaluation_json(const loss_metrics& m) {
  return {{"loss", part(m.loss_sum, m.samples)},
          {"accuracy", part(static_cast<double>(m.correct_top1), m.samples)},
          {"top5", part(static_cast<double>(m.correct_top5), m.samples)},
          {"samples", m.samples}};
}

template <class Member>
ordered_json per_stage(const actors::run_summary& summary, Member member) {
  auto list = ordered_json::array();
  for (const auto& stage : summary.stages)
    list.push_back(stage.*member);
  return list;
}

ordered_json summary_json(const actors::run_summary& s) {
  using actors::stage_report;
  ordered_json line{{"event", "summary"},
                    {"end", s.end == actors::run_end::finished ? "finished" : "interrupted"},
                    {"steps", s.steps},
                    {"seconds", s.seconds},
                    {"samples_per_s", s.samples_per_s},
                    {"steady_samples_per_s", s.steady_samples_per_s},
                    {"step_seconds", s.step_seconds},
                    {"weights_sha256", s.weights_sha256},
                    {"state_sha256", s.state_sha256},
                    {"schedule", s.schedule},
                    {"microbatches", s.microbatches},
                    {"replicas", per_stage(s, &stage_report::replicas)},
                    {"in_flight", per_stage(s, &stage_report::credit)},
                    {"layers", per_stage(s, &stage_report::layers)},
                    {"updates", per_stage(s, &stage_report::updates)},
                    {"weight_bytes", per_stage(s, &stage_report::weight_bytes)},
                    {"peak_weight_bytes", per_stage(s, &stage_report::peak_weight_bytes)},
                    {"peak_memory_bytes", per_stage(s, &stage_report::peak_memory_bytes)},
                    {"drains", s.drains},
                    {"threads", s.threads},
                    {"instruction_set", s.instruction_set},
                    {"library", s.library},
                    {"trace_dropped", s.trace_dropped}};
  if (s.evaluation) line["evaluation"] = evaluation_json(*s.evaluation);
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
  write(text_of(ordered_json{{"event", "step"},
                             {"step", e.step},
                             {"epoch", e.epoch},
                             {"loss", e.loss},
                             {"accuracy", e.accuracy},
                             {"lr", e.learning_rate},
                             {"samples_per_s", e.samples_per_s}}));
}

void metrics_file::eval(const actors::eval_event& e) {
  ordered_json line{{"event", "eval"}, {"epoch", e.epoch}, {"step", e.step}};
  line.update(evaluation_json(e.metrics));
  write(text_of(line));
}

void metrics_file::summary(const actors::run_summary& s) {
  write(text_of(summary_json(s)));
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
