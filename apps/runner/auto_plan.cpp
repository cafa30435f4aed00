// Remembers, searches, tries, tells.
#include "apps/runner/auto_plan.hpp"

#include "actors/checkpoint/digest.hpp"
#include "actors/profiler/measure_machine.hpp"
#include "apps/runner/app_job.hpp"
#include "apps/runner/plan_cache.hpp"
#include "apps/runner/plan_search.hpp"
#include "apps/runner/plan_trials.hpp"
#include "apps/runner/plan_words.hpp"
#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/text.hpp"
#include "kernels/usable_cores.hpp"

#include <fmt/format.h>

namespace penstock::apps {

namespace {

using say_line = std::function<bool(const std::string&)>;
constexpr const char* doubt_name = "doubts";
using texts = std::vector<std::pair<std::string, std::string>>;

std::string listed(const std::vector<int>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

// What decides a plan besides the model's shapes: the options that matter and those that fix something.
texts wishes(const app_options& o) {
  const auto& run = o.run;
  texts key{{"batch", std::to_string(run.batch)},
            {"last batch", std::to_string(o.plan.last_batch)},
            {"any", o.plan.any ? "yes" : "no"},
            {"schedules", join(o.plan.schedules, ",")},
            {"micro-batches", o.plan.fixes_microbatches ? std::to_string(o.pipeline.microbatches) : ""},
            {"replicas", o.plan.fixes_replicas ? listed(o.pipeline.replicas) : ""},
            {"stages", std::to_string(o.plan.stages)},
            {"chunks", std::to_string(o.plan.fixes_chunks ? o.pipeline.chunks : 0)},
            {"cuts", join(o.cuts, ",")},
            {"keep together", join(o.plan.keep_together, ";")},
            {"in flight", o.plan.in_flight},
            {"workers", std::to_string(o.plan.workers)},
            {"optimizer", fmt::format("{} {} {}", run.optimizer.name, run.optimizer.momentum, run.optimizer.nesterov)},
            {"clipping", run.clip_norm > 0         ? "yes"
                         : run.clip_stage_norm > 0 ? "of stages"
                                                   : "no"},
            {"kernels", run.reference_kernels ? "reference" : "library"},
            {"device", run.device},
            {"loader threads", std::to_string(run.loader_threads)},
            {"replaced layers", join(o.replace_layers, ";")}};
  for (const auto& s : o.plan.shapes)
    key.emplace_back("lengths", fmt::format("{}: {}", fmt::join(s.extents, " x "), s.share));
  if (!o.frozen_until.empty()) key.emplace_back("frozen until", o.frozen_until);
  if (!o.plan.cluster.empty()) key.emplace_back("cluster", read_cluster_text(o.plan.cluster));
  for (const auto& plugin : o.plugins)
    key.emplace_back("plug-in " + plugin, actors::sha256_of_file(plugin));
  return key;
}

// What decides how fast it is.
texts surroundings() {
  const auto [library, instruction_set] = compute_library();
  return {{"processor", actors::processor_name()},
          {"cores", fmt::format("{} of {}", usable_cores(), bound_cores())},
          {"instruction set", instruction_set},
          {"library", library},
          {"program", actors::sha256_of_file("/proc/self/exe")}};
}

// The same of all ranks, and how they are joined.
texts surroundings_of(const app_job& job, const app_options& o) {
  std::string mine;
  for (const auto& [what, value] : surroundings())
    mine += what + "=" + value + "\n";
  texts all{{"transport", o.job.transport + " " + o.job.devices + (o.job.poll ? " polls" : "")}};
  const auto& control = job.ranks().control;
  const auto of_ranks = job.ranks().control.all_gather("surroundings of the plan", mine, job.ranks().patience);
  for (std::size_t r = 0; r < of_ranks.size(); ++r)
    all.emplace_back(fmt::format("rank {} on {}", r, control.members()[r].host), of_ranks[r]);
  return all;
}

std::string step_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

// Simpler ones first: what runs without a plan, then fewer workers.
std::vector<contender> contenders_of(found_plans& found) {
  constexpr std::size_t most_besides = 3;
  std::vector<contender> all;
  if (found.best.size() > most_besides) found.best.resize(most_besides);
  std::stable_sort(found.best.begin(), found.best.end(), [](const auto& a, const auto& b) {
    const auto size = [](const planner::plan& p) { return std::pair(workers_of(p), p.stages.size()); };
    return size(a) < size(b);
  });
  if (found.plain) all.push_back({.plan = *found.plain});
  for (auto& p : found.best)
    all.push_back({.plan = std::move(p)});
  if (found.steady) all.push_back({.plan = *found.steady});
  return all;
}

std::string trial_line(const contender& c) {
  const auto [least, most] = std::minmax_element(c.seconds.begin(), c.seconds.end());
  auto text = fmt::format("  {}: {} a step as run", plan_line(c.plan), step_text(c.median()));
  if (c.seconds.size() > 1) text += fmt::format(" ({} to {})", step_text(*least), step_text(*most));
  if (c.plan.predicted) text += fmt::format(", {} predicted", step_text(c.plan.predicted->step_seconds));
  return text + (c.is_out ? ", given up as slower" : "");
}

// Takes the fastest, and writes into it how it came to be taken. A speed-up that no number of cores explains is not
// claimed: it goes to the doubts.
planner::plan take(const std::vector<contender>& all, const std::optional<planner::plan>& plain,
                   std::vector<std::string>& doubts) {
  if (all.size() == 1) {
    auto only = all.front().plan;
    only.reason = "the only one that keeps what is given";
    return only;
  }
  const auto winner = fastest_of(all);
  check(winner >= 0, "at least one plan was tried");
  auto taken = all[static_cast<std::size_t>(winner)];
  std::string rows;
  for (const auto& c : all)
    if (!c.seconds.empty())
      rows += fmt::format("{}{}: {}", rows.empty() ? "" : "; ", plan_line(c.plan), step_text(c.median()));
  taken.plan.inputs["tried"] = rows.substr(0, 4000);
  const auto tried = std::count_if(all.begin(), all.end(), [](const auto& c) { return !c.seconds.empty(); });
  auto reason = fmt::format("fastest of {} that were run: {} a step", tried, step_text(taken.median()));
  if (plain && winner == 0 && tried > 1) reason += "; the others gain nothing on it";
  if (plain && winner > 0) {
    const auto ratio = all.front().median() / taken.median();
    if (ratio <= most_cores(all)) {
      reason += fmt::format(", {:.3g} times as fast as {} without a plan", ratio, planner::describe_stages(*plain));
    } else {
      doubts.push_back(fmt::format("{} without a plan took {:.3g} times as long, more than {} cores explain",
                                   planner::describe_stages(*plain), ratio, most_cores(all)));
      reason += "; " + doubts.back() + ": perhaps something else runs here";
    }
  }
  taken.plan.inputs["simulated"] = taken.plan.reason;
  taken.plan.reason = reason;
  return std::move(taken.plan);
}

std::string repeat_text(const std::filesystem::path& kept, const app_options& o) {
  if (!o.plan.save.empty()) return "--plan " + o.plan.save + " repeats this run";
  if (!kept.empty()) return "--plan " + kept.string() + " repeats this run";
  return "--save-plan FILE keeps it";
}

std::optional<planner::plan> from_cache(const plan_cache& cache, const app_options& options, const say_line& say) {
  const auto found = cache.find([&](const std::string& line) { say(line); });
  if (!found) return std::nullopt;
  say(fmt::format("plan: {}; {}", plan_line(*found), found->reason));
  say(fmt::format("the plan is from the cache, measured {}{}; --plan-cache refresh measures anew; {}",
                  measured_at(*found), found->inputs.contains(doubt_name) ? " beside other work" : "",
                  repeat_text(cache.file(), options)));
  return found;
}

// On rank 0, and where there is one process.
planner::plan settle(const std::vector<contender>& all, found_plans& found, const plan_cache& cache,
                     const app_options& options, const say_line& say) {
  for (const auto& c : all)
    if (!c.seconds.empty()) say(trial_line(c));
  auto taken = take(all, found.plain, found.doubts);
  if (!found.doubts.empty()) taken.inputs[doubt_name] = join(found.doubts, "; ").substr(0, 1000);
  const auto* machines = &found.machines.front();
  for (const auto& c : found.machines)
    if (c.name == taken.inputs["cluster"]) machines = &c;
  const auto kept = cache.keep(taken, found.measured, *machines, [&](const std::string& line) { say(line); });
  say(fmt::format("plan: {}; {}", plan_line(taken), taken.reason));
  say(repeat_text(kept, options));
  return taken;
}

bool is_known_to_all(bool here, const app_job* job) {
  if (job == nullptr) return here;
  return job->ranks().control.broadcast("plan is known", here ? "yes" : "no", job->ranks().patience) == "yes";
}

// The first few: each size of micro-batch may have several.
std::string some_of(std::span<const std::string> doubts) {
  constexpr std::size_t most = 3;
  const auto shown = std::min(doubts.size(), most);
  const auto rest = doubts.size() - shown;
  return join(doubts.first(shown), "; ") + (rest > 0 ? "; and " + std::to_string(rest) + " more" : "");
}

} // namespace

std::optional<planner::plan> choose_plan(const app_options& options, const std::shared_ptr<const model>& net,
                                         const std::string& model_description, const app_job* job,
                                         const say_line& say) {
  const bool decides = job == nullptr || job->is_first();
  auto place = read_plan_cache(options.plan.cache);
  if (!place.note.empty() && decides) say(place.note);
  texts key{{"model", model_description}};
  for (const auto& part : {wishes(options), job != nullptr ? surroundings_of(*job, options) : surroundings()})
    key.insert(key.end(), part.begin(), part.end());
  const plan_cache cache(std::move(place), options.model, key);
  auto known = decides ? from_cache(cache, options, say) : std::nullopt;
  if (is_known_to_all(known.has_value(), job)) return known;
  if (job != nullptr) job->ranks().control.doing("measuring links and layers for a plan");
  part_teller teller(say);
  auto found = search_plans(options, net, model_description, job, teller, say);
  if (!found.doubts.empty())
    say("the profile contradicts itself, perhaps because something else runs here: " + some_of(found.doubts));
  auto all = decides ? contenders_of(found) : std::vector<contender>();
  if (job != nullptr) job->ranks().control.doing("trying plans");
  try_contenders(all, options, net, job, teller);
  if (!decides) return std::nullopt;
  return settle(all, found, cache, options, say);
}

} // namespace penstock::apps
