// Profiles, plans, compares.
#include "apps/runner/auto_plan.hpp"

#include "actors/profiler/measure_machine.hpp"
#include "actors/profiler/measure_ranks.hpp"
#include "actors/profiler/profile_model.hpp"
#include "apps/runner/app_job.hpp"
#include "apps/runner/apply_plan.hpp"
#include "apps/runner/text_file.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "kernels/usable_cores.hpp"
#include "planner/explore/explore.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace penstock::apps {

namespace {

using say_line = std::function<bool(const std::string&)>;

// Micro-batches as small as an eighth of the minibatch are worth a look; those between are interpolated.
std::vector<std::int64_t> sizes_to_measure(const app_options& o, std::int64_t least) {
  std::set<std::int64_t> sizes{std::max(least, o.run.batch)};
  for (const std::int64_t parts : {2, 4, 8})
    if (o.run.batch / parts >= least) sizes.insert(o.run.batch / parts);
  if (o.plan.fixes_microbatches) sizes.insert(std::max<std::int64_t>(least, o.run.batch / o.run.microbatches));
  return {sizes.begin(), sizes.end()};
}

planner::profile measure(const app_options& o, const std::shared_ptr<const model>& net, const std::string& description,
                         std::vector<int> workers, const say_line& say) {
  actors::profile_options options;
  options.samples = sizes_to_measure(o, net->least_training_samples().samples);
  options.workers = std::move(workers);
  options.warmup = 1;
  options.seconds = 1.5;
  options.optimizer = o.run.optimizer;
  options.reference_kernels = o.run.reference_kernels;
  options.seed = o.run.seed;
  options.should_stop = [&] { return !say(""); };
  std::string last;
  options.progress = [&](int done, int total, const std::string& what) {
    if (what == last) return say("");
    last = what;
    return say(fmt::format("profiling {}: {} ({}%)", net->name(), what, 100 * done / std::max(1, total)));
  };
  return actors::profile_model(net, description, options);
}

planner::plan_request request_for(const app_options& o) {
  planner::plan_request request;
  request.batch = o.run.batch;
  request.last_batch = o.plan.last_batch;
  request.schedules = o.plan.schedules;
  if (o.plan.fixes_microbatches) request.microbatches = {o.run.microbatches};
  request.stages = o.plan.stages;
  if (o.plan.fixes_replicas) request.replicas = o.run.replicas;
  request.first_layers = o.cuts;
  request.keep_together = o.plan.keep_together;
  request.in_flight = o.plan.in_flight;
  request.optimizer_copies = optimizer_copies(o.run.optimizer);
  request.synchronous_only = o.run.clip_norm > 0; // clipping needs the gradients of all stages at one version
  return request;
}

planner::cluster read_cluster(const std::filesystem::path& file) {
  std::string text;
  try {
    text = read_text_file(file.string());
  } catch (const error& fault) {
    throw error(std::string("--cluster: ") + fault.what());
  }
  try {
    auto c = planner::cluster_from_toml(text, "--cluster: " + file.string());
    for (const auto& type : c.devices) {
      if (type.streaming)
        throw usage_error("--cluster: device type " + in_quotes(type.name) + " of " + file.string() +
                          " can only be simulated");
      if (type.threads > usable_cores())
        throw usage_error(fmt::format("--cluster: device type '{}' of {} has {} threads, this machine {} cores",
                                      type.name, file.string(), type.threads, usable_cores()));
    }
    return c;
  } catch (const std::invalid_argument& fault) {
    throw usage_error(fault.what());
  }
}

// The numbers of workers worth a look: divisors of the cores, so that none lies idle, unless the options fix it.
std::vector<int> worker_counts(const app_options& o) {
  const int cores = usable_cores();
  int least = std::max(1, o.plan.stages);
  if (o.plan.fixes_replicas) {
    least = 0;
    for (const int r : o.run.replicas)
      least += r;
    return {least};
  }
  const int most = o.plan.workers > 0 ? o.plan.workers : std::max(cores, least);
  std::vector<int> counts;
  for (int w = least; w <= most; ++w)
    if (w == least || w == most || cores % w == 0) counts.push_back(w);
  if (counts.empty())
    throw usage_error(fmt::format("--workers: found {}, wanted at least the {} stages of --stages", most, least));
  return counts;
}

std::vector<planner::cluster> find_clusters(const app_options& options, const app_job* job, const say_line& say) {
  if (!options.plan.cluster.empty()) {
    auto given = read_cluster(options.plan.cluster);
    if (job != nullptr && given.device_count() != job->ranks().size())
      throw usage_error(fmt::format("--cluster: {} has {} devices, the job {} processes", options.plan.cluster,
                                    given.device_count(), job->ranks().size()));
    return {std::move(given)};
  }
  if (job != nullptr) return {actors::measure_ranks(job->ranks(), [&](const std::string& line) { say(line); })};
  std::vector<planner::cluster> clusters;
  for (const int workers : worker_counts(options))
    clusters.push_back(actors::measure_machine(workers));
  return clusters;
}

} // namespace

std::optional<planner::plan> choose_plan(const app_options& options, std::shared_ptr<const model> net,
                                         const std::string& model_description, const app_job* job,
                                         const say_line& say) {
  const auto request = request_for(options);
  std::optional<planner::plan> best;
  std::optional<std::string> refusal;
  if (job != nullptr) job->ranks().control.doing("measuring links and layers for a plan");
  const auto clusters = find_clusters(options, job, say);
  std::vector<int> workers;
  for (const auto& c : clusters)
    workers.push_back(job != nullptr ? 1 : c.device_count()); // workers of this process
  const auto profile = measure(options, net, model_description, workers, say);
  if (job != nullptr && !job->is_first()) return std::nullopt;
  for (const auto& c : clusters) {
    try {
      auto found = planner::make_plan(profile, c, request);
      found.threads = c.devices.front().threads;
      if (!best || found.predicted->step_seconds < 0.995 * best->predicted->step_seconds) best = std::move(found);
    } catch (const std::invalid_argument& fault) {
      if (!refusal) refusal = fault.what(); // another number of workers may fit
    }
  }
  if (!best) throw usage_error("--plan auto: " + refusal.value_or("nothing was planned"));
  say(fmt::format("plan: {}, {}, predicted {:.1f} ms a step; {}", planner::describe_stages(*best), best->schedule,
                  1e3 * best->predicted->step_seconds, best->reason));
  return best;
}

} // namespace penstock::apps
