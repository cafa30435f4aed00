// Profiles, plans for each number of workers, and keeps what differs.
#include "apps/runner/plan_search.hpp"

#include "actors/policy/partition.hpp"
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
#include "planner/explore/hints.hpp"
#include "planner/explore/pins.hpp"
#include "planner/explore/trial.hpp"
#include "planner/update_lag.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

namespace penstock::apps {

namespace {

using say_line = std::function<bool(const std::string&)>;

// Schedules whose own M follows from the stages, so that no list of numbers says it.
bool derives_microbatches(const std::string& schedule) {
  return schedule == "2bw" || schedule == "data-parallel";
}

// The minibatch, and the micro-batches that may come of it; those between are interpolated.
std::vector<std::int64_t> sizes_to_measure(const app_options& o, std::int64_t least) {
  std::set<std::int64_t> sizes{std::max(least, o.run.batch)};
  if (o.plan.fixes_microbatches) sizes.insert(std::max(least, o.run.batch / o.pipeline.microbatches));
  const bool splits = o.plan.any || derives_microbatches(o.pipeline.schedule);
  for (const std::int64_t parts : {2, 4, 8})
    if (splits && o.run.batch / parts >= least) sizes.insert(o.run.batch / parts);
  return {sizes.begin(), sizes.end()};
}

planner::profile measure(const app_options& o, const std::shared_ptr<const model>& net, const std::string& description,
                         std::vector<int> workers, part_teller& teller) {
  actors::profile_options options;
  options.samples = sizes_to_measure(o, net->least_training_samples().samples);
  options.workers = std::move(workers);
  options.shapes = o.plan.shapes;
  options.warmup = 1;
  options.seconds = 1.5;
  options.optimizer = o.run.optimizer;
  options.reference_kernels = o.run.reference_kernels;
  options.device = o.run.device;
  options.seed = o.run.seed;
  options.should_stop = [&teller] { return !teller.goes_on(); };
  options.progress = [&](int done, int total, const std::string& what) {
    return teller.at(fmt::format("profiling {}: {}", net->name(), what),
                     fmt::format("{}%", 100 * done / std::max(1, total)));
  };
  return actors::profile_model(net, description, options);
}

planner::plan_request request_for(const app_options& o) {
  planner::plan_request request;
  request.batch = o.run.batch;
  request.last_batch = o.plan.last_batch;
  request.schedules = o.plan.schedules;
  if (o.plan.fixes_microbatches)
    request.microbatches = {o.pipeline.microbatches};
  else if (!o.plan.any && !derives_microbatches(o.pipeline.schedule))
    request.microbatches = {1};
  request.stages = o.plan.stages;
  request.chunks = o.pipeline.schedule == "interleaved" && o.plan.fixes_chunks ? o.pipeline.chunks : 0;
  if (o.plan.fixes_replicas) request.replicas = o.pipeline.replicas;
  request.first_layers = o.cuts;
  request.keep_together = o.plan.keep_together;
  request.frozen_until = o.frozen_until;
  request.in_flight = o.plan.in_flight;
  // Staleness is nobody's to change who has not said so.
  request.update_lag = o.plan.update_lag.empty() && !o.plan.any ? "0" : o.plan.update_lag;
  request.optimizer_copies = optimizer_copies(o.run.optimizer);
  request.synchronous_only = o.run.clip_norm > 0; // clipping needs the gradients of all stages at one version
  request.clips_by_global_norm = o.run.clip_norm > 0;
  return request;
}

planner::cluster read_cluster(const std::filesystem::path& file) {
  const auto text = read_cluster_text(file.string());
  try {
    auto c = planner::cluster_from_toml(text, "--cluster: " + file.string());
    for (const auto& type : c.devices) {
      if (type.streaming)
        throw usage_error("--cluster: device type " + in_quotes(type.name) + " of " + file.string() +
                          " can only be simulated");
      if (type.threads > usable_cores())
        throw usage_error(fmt::format("--cluster: device type {} of {} has {} threads, this machine {} cores",
                                      in_quotes(type.name), file.string(), type.threads, usable_cores()));
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
    return {std::accumulate(o.pipeline.replicas.begin(), o.pipeline.replicas.end(), 0)};
  }
  const int most = o.plan.workers > 0 ? o.plan.workers : std::max(cores, least);
  std::vector<int> counts;
  for (int w = least; w <= most; ++w)
    if (w == least || w == most || cores % w == 0) counts.push_back(w);
  if (counts.empty())
    throw usage_error(fmt::format("--workers: found {}, wanted at least the {} stages of --stages", most, least));
  return counts;
}

std::vector<planner::cluster> find_clusters(const app_options& options, const app_job* job, part_teller& teller,
                                            const say_line& say) {
  if (!options.plan.cluster.empty()) {
    auto given = read_cluster(options.plan.cluster);
    if (job != nullptr && given.device_count() != job->ranks().size())
      throw usage_error(fmt::format("--cluster: {} has {} devices, the job {} processes", options.plan.cluster,
                                    given.device_count(), job->ranks().size()));
    return {std::move(given)};
  }
  if (job != nullptr) return {actors::measure_ranks(job->ranks(), [&](const std::string& line) { say(line); })};
  std::vector<planner::cluster> clusters;
  for (const int workers : worker_counts(options)) {
    teller.at(fmt::format("measuring this machine with {} worker{}", workers, workers == 1 ? "" : "s"), "");
    clusters.push_back(actors::measure_machine(workers, [&teller] { return !teller.goes_on(); }));
  }
  return clusters;
}

// Does it have the M that its schedule would take by itself?
bool has_own_microbatches(const planner::plan& p) {
  auto request = planner::request_of(p, 1);
  request.microbatches = 0;
  return planner::resolve_schedule(request).microbatches == p.microbatches;
}

std::string execution_of(const planner::plan& p) {
  auto text = fmt::format("{}/{}/{}", planner::describe_stages(p), p.threads, p.microbatches);
  const bool alone = p.stages.size() == 1 && p.stages.front().replicas == 1 && p.microbatches == 1;
  if (!alone) text += "/" + p.schedule; // one worker that takes one minibatch after the other has no schedule
  for (const auto& stage : p.stages)
    text += fmt::format("/{}{}{}", alone ? 1 : stage.in_flight, stage.recompute ? "r" : "",
                        stage.update_lag > 0 ? fmt::format("d{}", stage.update_lag) : "");
  return text;
}

std::string shape_of(const planner::plan& p) {
  auto text = fmt::format("{}/{}/{}", p.schedule, p.chunks, p.microbatches);
  for (const auto& stage : p.stages)
    text += fmt::format("/{}", stage.replicas);
  return text;
}

// What the same options run without --plan; nothing where that is not what they ask for, or does not fit.
std::optional<planner::plan> plain_plan(const app_options& o, const model& net, const planner::plan_request& request,
                                        const found_plans& found) {
  if (!o.plan.keep_together.empty() && o.plan.stages > 1 && o.cuts.empty()) return std::nullopt;
  actors::pipeline_request wanted;
  wanted.schedule = o.plan.schedules.size() == 1 ? o.plan.schedules.front() : o.pipeline.schedule;
  if (request.synchronous_only && o.plan.any && o.plan.schedules.empty()) wanted.schedule = "1f1b";
  wanted.microbatches = o.plan.fixes_microbatches ? o.pipeline.microbatches : 0;
  wanted.replicas = o.plan.fixes_replicas ? o.pipeline.replicas
                                          : std::vector<int>(static_cast<std::size_t>(std::max(1, o.plan.stages)), 1);
  if (o.plan.fixes_chunks) wanted.chunks = o.pipeline.chunks;
  const auto workers = std::accumulate(wanted.replicas.begin(), wanted.replicas.end(), 0);
  const planner::cluster* on = nullptr;
  for (const auto& c : found.machines)
    if (c.device_count() >= workers && (on == nullptr || c.device_count() < on->device_count())) on = &c;
  if (on == nullptr) return std::nullopt;
  wanted.threads = on->devices.front().threads;
  for (const auto& name : o.cuts)
    wanted.cuts.push_back(actors::layer_index(name, net));
  if (!o.frozen_until.empty()) wanted.frozen_until = actors::layer_index(o.frozen_until, net);
  planner::plan p;
  p.model = found.measured.model;
  p.model_options = found.measured.model_options;
  p.batch = o.run.batch;
  p.optimizer_copies = request.optimizer_copies;
  try {
    if (!request.in_flight.empty()) wanted.in_flight = planner::parse_in_flight(request.in_flight);
    if (!request.update_lag.empty()) wanted.update_lag = planner::parse_update_lag(request.update_lag);
    static_cast<planner::execution_plan&>(p) = actors::draft_plan(wanted, net);
    p = planner::predict(p, found.measured, *on);
    if (!planner::trains_on(found.measured, request.batch, request.last_batch, p.microbatches)) return std::nullopt;
  } catch (const usage_error&) {
    return std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
  for (const auto& stage : p.predicted->stages)
    if (const auto memory = on->devices.front().memory_bytes; memory > 0 && stage.memory.total > memory)
      return std::nullopt;
  p.reason = "what runs without a plan";
  p.inputs["cluster"] = on->name;
  return p;
}

// A straight pipeline by the model's own balance with more in flight. A profile taken beside other work cuts where that
// work was, and no simulation knows stages that are held up by turns, which more in flight makes up for.
std::optional<planner::plan> steady_plan(const app_options& o, const model& net, planner::plan_request request,
                                         const found_plans& found) {
  const auto schedule = o.plan.schedules.size() == 1 ? o.plan.schedules.front() : o.pipeline.schedule;
  const auto& machine = found.machines.back();
  const int workers = machine.device_count();
  const bool is_free = o.plan.stages == 0 && !o.plan.fixes_replicas && o.cuts.empty() && o.plan.keep_together.empty() &&
                       request.in_flight.empty() && o.plan.update_lag.empty() && !request.synchronous_only;
  if (!is_free || schedule != "pipedream" || workers < 2 || std::cmp_less(net.layers().size(), workers))
    return std::nullopt;
  request.schedules = {schedule};
  request.stages = workers;
  request.replicas.assign(static_cast<std::size_t>(workers), 1);
  request.in_flight = "double";
  const auto cuts = actors::balanced_cuts(net, request.replicas,
                                          o.frozen_until.empty() ? 0 : actors::layer_index(o.frozen_until, net));
  for (std::size_t s = 1; s < cuts.size(); ++s)
    request.first_layers.push_back(net.layers().at(static_cast<std::size_t>(cuts[s])).name);
  try {
    auto p = planner::make_plan(found.measured, machine, request);
    p.threads = machine.devices.front().threads;
    return p;
  } catch (const std::invalid_argument&) {
    return std::nullopt; // no such plan fits
  }
}

// The best of all numbers of workers, the best of each shape first.
std::vector<planner::plan> best_of(std::vector<planner::plan> all, const std::optional<planner::plan>& plain) {
  const auto step_seconds = [](const planner::plan& p) { return p.predicted.value().step_seconds; };
  std::stable_sort(all.begin(), all.end(),
                   [&](const auto& a, const auto& b) { return step_seconds(a) < step_seconds(b); });
  std::vector<planner::plan> best, further;
  std::set<std::string> executions, shapes;
  if (plain) executions.insert(execution_of(*plain));
  for (auto& p : all) {
    if (!executions.insert(execution_of(p)).second) continue;
    auto& to = shapes.insert(shape_of(p)).second ? best : further;
    to.push_back(std::move(p));
  }
  std::move(further.begin(), further.end(), std::back_inserter(best));
  return best;
}

// What parts layers that the model keeps together has to gain by it over every number of workers.
void leave_out_parted(std::vector<planner::plan>& all, const planner::profile& measured) {
  double least[] = {INFINITY, INFINITY}; // whole, parted
  const auto parts = [&](const planner::plan& p) { return !planner::parted_group(p, measured).empty(); };
  for (const auto& p : all)
    least[parts(p) ? 1 : 0] = std::min(least[parts(p) ? 1 : 0], p.predicted.value().step_seconds);
  if (least[0] <= planner::worth_parting * least[1]) std::erase_if(all, parts);
}

void plan_all(const app_options& o, const planner::plan_request& request, const model& net, found_plans& found) {
  constexpr std::size_t most_of_each = 4;
  std::vector<planner::plan> all;
  std::optional<std::string> refusal;
  for (const auto& c : found.machines) {
    try {
      for (auto& p : planner::make_plans(found.measured, c, request, most_of_each)) {
        if (!o.plan.any && !o.plan.fixes_microbatches && !has_own_microbatches(p)) continue;
        p.threads = c.devices.front().threads;
        all.push_back(std::move(p));
      }
    } catch (const std::invalid_argument& fault) {
      if (!refusal) refusal = fault.what(); // another number of workers may fit
    }
  }
  if (all.empty())
    throw usage_error(
        "--plan auto: " +
        refusal.value_or("no plan has the micro-batches that are its schedule's own; --microbatches gives others"));
  if (request.first_layers.empty()) leave_out_parted(all, found.measured);
  found.plain = plain_plan(o, net, request, found);
  found.steady = steady_plan(o, net, request, found);
  found.best = best_of(std::move(all), found.plain);
  const auto is_steady = [&](const auto& p) { return execution_of(p) == execution_of(*found.steady); };
  if (found.steady && std::any_of(found.best.begin(), found.best.end(), is_steady)) found.steady.reset();
}

// Faster than all its workers together, each as fast as one alone with as many threads.
std::vector<std::string> impossible_speedups(const found_plans& found) {
  std::vector<std::string> doubts;
  for (const auto& p : found.best) {
    const auto workers = workers_of(p);
    const auto speedup = p.predicted->speedup_over_one_device;
    if (speedup > 1.1 * static_cast<double>(workers))
      doubts.push_back(fmt::format("{} is predicted {:.1f} times as fast as one of its {} workers",
                                   planner::describe_stages(p), speedup, workers));
  }
  return doubts;
}

// What cannot be kept is refused before anything is measured.
void check_pins(const model& net, int devices, const planner::plan_request& request) {
  planner::profile names;
  names.model = net.name();
  for (const auto& layer : net.layers())
    names.layers.push_back({.name = layer.name});
  try {
    planner::resolve_pins(names, planner::flat_cluster(devices, 1e9), request);
  } catch (const std::invalid_argument& fault) {
    throw usage_error(std::string("--plan auto: ") + fault.what());
  }
}

} // namespace

std::string read_cluster_text(const std::string& file) {
  try {
    return read_text_file(file);
  } catch (const error& fault) {
    throw error(std::string("--cluster: ") + fault.what());
  }
}

found_plans search_plans(const app_options& options, const std::shared_ptr<const model>& net,
                         const std::string& model_description, const app_job* job, part_teller& teller,
                         const say_line& say) {
  found_plans found;
  const auto request = request_for(options);
  if (options.plan.cluster.empty())
    check_pins(*net, job != nullptr ? job->ranks().size() : worker_counts(options).back(), request);
  found.machines = find_clusters(options, job, teller, say);
  std::vector<int> workers;
  for (const auto& c : found.machines)
    workers.push_back(job != nullptr ? 1 : c.device_count()); // workers of this process
  found.measured = measure(options, net, model_description, workers, teller);
  if (job != nullptr && !job->is_first()) return found;
  teller.at("searching for plans", "");
  plan_all(options, request, *net, found);
  if (job == nullptr && !impossible_speedups(found).empty()) {
    found.measured = measure(options, net, model_description, workers, teller);
    plan_all(options, request, *net, found);
  }
  found.doubts = found.measured.doubts;
  for (auto& doubt : impossible_speedups(found))
    found.doubts.push_back(std::move(doubt));
  found.measured.doubts = found.doubts;
  return found;
}

} // namespace penstock::apps
