// An app from its command line to its exit code.
#include "apps/runner/run_app.hpp"

#include "apps/plugins/load_plugin.hpp"
#include "apps/runner/app_job.hpp"
#include "apps/runner/checkpoint_folder.hpp"
#include "apps/runner/evaluation_judge.hpp"
#include "apps/runner/exit_codes.hpp"
#include "apps/runner/metrics_file.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/output_files.hpp"
#include "apps/runner/part_clock.hpp"
#include "apps/runner/plan_changes.hpp"
#include "apps/runner/prediction_text.hpp"
#include "apps/runner/prepare.hpp"
#include "apps/runner/progress.hpp"
#include "apps/runner/replan_port.hpp"
#include "apps/runner/say.hpp"
#include "apps/runner/signals.hpp"
#include "apps/runner/summary_text.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"
#include "kernels/text.hpp"

#include <memory>
#include <optional>

namespace penstock::apps {

namespace {

// Hands every event to whoever shows or keeps it. An output that fails ends the run in order, and is reported then.
class app_observer final : public actors::run_observer {
public:
  app_observer(progress& shown, metrics_file* kept, actors::run_control& control, part_clock& parts, replan_port* port,
               evaluation_judge* judge)
      : shown_(shown), kept_(kept), control_(control), parts_(parts), port_(port), judge_(judge) {}

  void on_step(const actors::step_event& event) override {
    parts_.enter("training");
    if (port_ != nullptr) port_->at_step(event.step);
    shown_.step(event);
    keep([&] { kept_->step(event); });
  }
  void on_results(const actors::batch_results& results) override {
    if (judge_ != nullptr) judge_->take(results);
  }
  void on_eval(const actors::eval_event& given) override {
    auto event = given;
    if (judge_ != nullptr) judged_ = judge_->finish();
    complete(event.found);
    shown_.eval(event);
    keep([&] { kept_->eval(event); });
  }
  void on_checkpoint(const std::filesystem::path& path, std::int64_t step) override {
    shown_.note("checkpoint of step " + std::to_string(step) + " in " + path.string());
  }
  void on_note(const std::string& line) override { shown_.note(line); }
  void on_progress(const actors::part_progress& p) override {
    const bool saves = p.what.starts_with("gathering") || p.what.starts_with("finishing");
    parts_.enter(p.what == "evaluating" || p.what == "training" ? p.what : saves ? "saving" : "preparing");
    shown_.part(p);
  }

  const std::string& failure() const { return failure_; }
  /// Adds what was judged of the last evaluation.
  void complete(actors::evaluation& found) const {
    found.shown.insert(found.shown.end(), judged_.begin(), judged_.end());
  }

private:
  template <class Write>
  void keep(Write write) {
    if (kept_ == nullptr) return;
    try {
      write();
    } catch (const error& fault) {
      failure_ = fault.what();
      control_.stop = true;
    }
  }

  progress& shown_;
  metrics_file* kept_;
  actors::run_control& control_;
  part_clock& parts_;
  replan_port* port_;
  evaluation_judge* judge_;
  std::vector<shown_value> judged_;
  std::string failure_;
};

void describe(const app_options& options, const prepared_run& run, const actors::run_summary& plan,
              const app_job* job) {
  if (job != nullptr)
    for (const auto& line : job->description())
      say(line + "\n");
  for (const auto& note : run.notes)
    say(printable(note) + "\n");
  const auto test_samples = run.inputs.test != nullptr ? run.inputs.test->size() : 0;
  say(plan_text(plan, options, {run.steps_per_epoch, test_samples}) + changes_text(run.inputs.changes));
  if (options.dry_run && options.control)
    say("changes of plan would be asked for at " + options.control->master + ", " +
        (options.control->port == 0 ? "any free port" : "port " + std::to_string(options.control->port)) + "\n");
}

// Each line is about what takes long from then on.
prepared_run prepare_shown(const app_options& options, const plugin_registry& plugins,
                           const actors::run_control& control, app_job* job, progress& shown) {
  shown.part({.what = "preparing model and data"});
  auto run = prepare(options, plugins, job, [&](const std::string& line) {
    if (!line.empty()) {
      shown.note(line);
      shown.part({.what = line});
    }
    return !control.stop;
  });
  shown.finish();
  actors::give_up_if_asked(control);
  return run;
}

// Before anything is written: a port that cannot be had is found at once.
std::unique_ptr<replan_port> open_control(const app_options& options, const prepared_run& run,
                                          actors::run_control& control, const app_job* job, progress& shown) {
  if (!options.control || (job != nullptr && !job->is_first())) return nullptr;
  const auto secret = job != nullptr ? job->secret() : transport::read_secret_for("--control");
  if (options.dry_run) return nullptr;
  auto port = of_option("--control", [&] {
    return std::make_unique<replan_port>(
        *options.control, secret, *run.settler, run.plan, control.plan_wishes,
        [&shown](const std::string& line) { shown.note(printable(line)); },
        [model = options.model](const std::string& line) { complain(model, line); });
  });
  say("changes of plan are asked for at " + port->address() + " (penstock replan --control " + port->address() +
      " FILE)\n");
  return port;
}

void save_plan(const app_options& options, const prepared_run& run) {
  if (options.plan.save.empty()) return;
  atomic_file file(options.plan.save);
  file.write(planner::to_json(*run.plan));
  file.commit();
}

// All ranks leave with the code of the signal, whichever of them it reached; of several, the lowest rank's counts.
int code_of_interruption(const app_job* job) {
  std::vector<std::string> codes{std::to_string(signal_guard::exit_code())};
  if (job != nullptr) codes = job->ranks().control.all_gather("ending signal", codes.front(), job->ranks().patience);
  for (const auto& code : codes)
    if (code != "0") return std::stoi(code);
  return done;
}

// One process, or one rank of a job; rank 0 does the talking and writes the files.
int execute_run(const app_options& options, const plugin_registry& plugins, actors::run_control& control, app_job* job,
                actors::checkpoint_lock* lock) {
  const bool talks = job == nullptr || job->is_first();
  const auto started = std::chrono::system_clock::now();
  part_clock parts("preparing");
  progress shown(stdout, !talks);
  auto run = prepare_shown(options, plugins, control, job, shown);
  run.inputs.lock = lock;
  const auto plan = actors::plan_run(run.plan, run.options, run.inputs);
  const auto port = open_control(options, run, control, job, shown);
  if (options.dry_run) {
    if (talks) {
      save_plan(options, run);
      describe(options, run, plan, job);
    }
    return done;
  }
  std::optional<metrics_file> metrics;
  if (talks) {
    check_outputs(options);
    save_plan(options, run);
    if (!options.metrics.empty())
      metrics.emplace(options.metrics, run.options.resume ? metrics_start::appended : metrics_start::anew);
    describe(options, run, plan, job);
  }
  shown.steps_per_epoch(run.steps_per_epoch);
  const auto judge = judge_of(*run.inputs.net, run.inputs.test, run.options);
  app_observer observer(shown, metrics ? &*metrics : nullptr, control, parts, port.get(), judge.get());
  auto summary = actors::train(run.plan, run.options, run.inputs, observer, control);
  shown.finish();
  if (summary.evaluation) observer.complete(*summary.evaluation);
  if (!observer.failure().empty()) throw error(observer.failure());
  if (metrics)
    metrics->summary(summary, {.options = options,
                               .run = run,
                               .processes = job != nullptr ? job->ranks().size() : 1,
                               .started = started,
                               .seconds_by_part = parts.seconds()});
  if (talks) {
    say(summary_text(summary, options));
    if (run.plan->predicted && summary.steps > 0 && summary.plan_changes.empty())
      say(prediction_text(*run.plan->predicted, summary));
  }
  if (talks && !summary.trace_failure.empty()) throw error(summary.trace_failure);
  const int code = code_of_interruption(job); // also of one that came when only outputs were left to write
  return code == done && summary.end == actors::run_end::interrupted ? terminated : code;
}

// What failed where there was nothing to lose failed because of the signal, here or at a rank that has left.
bool is_by_signal(const actors::run_control& control) {
  return signal_guard::exit_code() != 0 && control.part == actors::run_part::nothing_to_lose;
}

int execute_rank(const app_options& options, int restarts, const plugin_registry& plugins, actors::run_control& control,
                 app_job& job) {
  try {
    const auto folder = settle_checkpoint_folder(options, restarts, &job, control);
    const int code = execute_run(folder.options, plugins, control, &job, folder.lock.get());
    job.leave();
    return code;
  } catch (const std::exception& e) {
    if (is_by_signal(control)) {
      job.pass_on_signal();
      job.fail("a signal ended it before it had trained");
      return signal_guard::exit_code();
    }
    const bool told = job.fail(described(e)); // rank 0 tells the user
    if (const int signalled = job.go_on_without_lost(); signalled != 0) return signalled;
    if (!told) throw;
    return job.code_of_failure(dynamic_cast<const usage_error*>(&e) != nullptr ? usage : failed);
  }
}

// Nothing when a signal came while the others were waited for in vain.
std::unique_ptr<app_job> join_unless_stopped(const app_options& options, const transport::launch& where,
                                             const actors::run_control& control) {
  try {
    return std::make_unique<app_job>(options.job, options.shared, where,
                                     [&](const std::string& line) { complain(options.model, line); });
  } catch (const error&) {
    if (is_by_signal(control)) return nullptr;
    throw;
  }
}

int execute_alone(const app_options& options, int restarts, const plugin_registry& plugins,
                  actors::run_control& control) {
  try {
    const auto folder = settle_checkpoint_folder(options, restarts, nullptr, control);
    return execute_run(folder.options, plugins, control, nullptr, folder.lock.get());
  } catch (const std::exception&) {
    if (is_by_signal(control)) return signal_guard::exit_code();
    throw;
  }
}

int execute(const app_options& given) {
  const auto plugins = of_option("--plugin", [&] { return load_plugins(given.plugins); });
  if (!given.config.empty()) {
    say(given.config);
    return done;
  }
  actors::run_control control;
  const signal_guard signals(control, given.model);
  const auto where = find_launch(given.job);
  if (where.size == 1) {
    // Several such processes would do the same work beside each other, and write the same files.
    if (!where.unused.empty()) complain(given.model, "one process, " + started_by(where));
    return execute_alone(given, where.restarts, plugins, control);
  }
  if (where.rank != 0) signal_guard::keep_quiet();
  const auto job = join_unless_stopped(given, where, control);
  return job != nullptr ? execute_rank(given, where.restarts, plugins, control, *job) : signal_guard::exit_code();
}

} // namespace

int run_app(std::string_view model, int argc, char** argv) {
  return run_guarded(model, [&]() -> int {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    std::string help;
    const auto options = parse_options(model, arguments, help);
    if (!options) {
      say(help);
      return done;
    }
    return execute(*options);
  });
}

} // namespace penstock::apps
