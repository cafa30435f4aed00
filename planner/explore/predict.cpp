// Plays a plan's machine and says what came of it: time, memory, bytes, and what bounds them.
#include "planner/explore/predict.hpp"

#include "planner/explore/pins.hpp"
#include "planner/explore/settings.hpp"
#include "planner/explore/stage_sums.hpp"
#include "planner/explore/streaming.hpp"
#include "planner/profile/frozen_costs.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

namespace penstock::planner {

namespace {

/// What the simulator says, or the closed form where there is nothing to play.
struct outcome {
  double step_seconds = 0;
  double bytes_per_minibatch = 0;
  std::vector<double> busy; ///< per stage, share of the time, mean over its replicas
  std::vector<simulated_memory> memory;
  std::vector<double> all_reduce_seconds;
};

outcome play(const plan& p, const machine& m) {
  auto s = resolve_schedule(request_of(p, 1));
  s.minibatches = steady_minibatches(s);
  const auto run = run_machine(s, m, {.keep_spans = false});
  return {.step_seconds = run.step_seconds,
          .bytes_per_minibatch = run.bytes_sent / static_cast<double>(s.minibatches),
          .busy = steady_busy(run, s.minibatches),
          .memory = run.memory,
          .all_reduce_seconds = run.all_reduce_seconds};
}

outcome play_streaming(const plan& p, const machine& m, const cluster& c) {
  const auto estimate = estimate_fbp(m, c, p.microbatches);
  return {.step_seconds = estimate.seconds,
          .bytes_per_minibatch = estimate.bytes_sent,
          .busy = estimate.busy,
          .memory = estimate.memory,
          .all_reduce_seconds = std::vector<double>(p.stages.size(), 0.0)};
}

std::vector<std::int64_t> in_flight_of(const plan& p) {
  std::vector<std::int64_t> in_flight;
  for (const auto& stage : p.stages)
    in_flight.push_back(stage.in_flight);
  return in_flight;
}

bool runs_on_streaming(const machine& m, const cluster& c) {
  return std::any_of(m.stages.begin(), m.stages.end(), [&](const auto& stage) {
    return c.devices[static_cast<std::size_t>(c.type_of(stage.devices.front()))].streaming.has_value();
  });
}

std::size_t replicas_of(const machine_stage& stage) {
  return stage.devices.size();
}

double mean_over_minibatch(const std::vector<double>& values, const plan& p) {
  if (values.size() == 1) return values.front();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(p.microbatches);
}

/// One device alone, as its best plan is played: a streaming device reads its weights for every micro-batch and may
/// keep small ones on its chip, so there M matters, and so does recomputation.
double alone_seconds(plan alone, const profile& of, const cluster& c, bool streams) {
  if (!streams) {
    const auto costs = machine_of(alone, of, c).stages.front();
    return costs.forward_seconds.front() + costs.backward_seconds.front() + costs.update_seconds;
  }
  auto least = std::numeric_limits<double>::infinity();
  alone.schedule = "1f1b";
  alone.stages.front().in_flight = 1;
  for (const int m : microbatches_worth_trying(of, alone.batch, 0))
    for (const bool recompute : {false, true}) {
      alone.microbatches = m;
      alone.stages.front().recompute = recompute;
      const auto plain = machine_of(alone, of, c);
      auto played = plain;
      stream_through(played, c, {1}, m);
      least = std::min({least, play(alone, played).step_seconds, estimate_fbp(plain, c, m).seconds});
    }
  return least;
}

/// The whole model on the device of the cluster that is fastest with it.
double one_device_seconds(const plan& p, const profile& of, const cluster& c) {
  auto least = std::numeric_limits<double>::infinity();
  for (const auto& type : c.devices) {
    plan alone = p;
    alone.chunks = 1;
    alone.ahead = 0;
    alone.schedule = "model-parallel";
    alone.microbatches = 1;
    alone.stages = {{.first_layer = p.stages.front().first_layer,
                     .last_layer = p.stages.back().last_layer,
                     .devices = {type.name + ":0"}}};
    least = std::min(least, alone_seconds(std::move(alone), of, c, type.streaming.has_value()));
  }
  return least;
}

/// Messages of one minibatch that a pair of neighbouring stages exchange each way go over so many pairs of devices.
std::vector<std::pair<int, int>> pairs_of(const machine_stage& from, const machine_stage& to) {
  constexpr std::size_t most = 4096; // a few rounds of any cluster's replicas
  const auto rounds = std::min(most, std::lcm(replicas_of(from), replicas_of(to)));
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t tau = 0; tau < rounds; ++tau)
    pairs.emplace_back(from.devices[tau % replicas_of(from)], to.devices[tau % replicas_of(to)]);
  return pairs;
}

double send_seconds(const machine_stage& from, const machine_stage& to, const cluster& c) {
  double slowest = 0;
  for (const auto& [a, b] : pairs_of(from, to))
    slowest = std::max(slowest, transfer_seconds(c, a, b, from.output_bytes.front()));
  return slowest;
}

/// Seconds a minibatch's messages between a stage and the next take of the busiest link they share, were it theirs
/// alone. Nothing comes back to a frozen stage.
double link_seconds(const machine& m, std::size_t stage, const plan& p, const cluster& c) {
  const auto &from = m.stages[stage], &to = m.stages[stage + 1];
  const bool goes_both_ways = static_cast<int>(stage) >= frozen_stages_of(p);
  const auto bytes = mean_over_minibatch(from.output_bytes, p) * p.microbatches;
  double slowest = 0;
  for (const auto& [a, b] : pairs_of(from, to)) {
    const auto at = c.level_between(a, b);
    if (at < 0) continue;
    const auto& level = c.levels[static_cast<std::size_t>(at)];
    const auto directions = level.half_duplex && goes_both_ways ? 2.0 : 1.0;
    const auto flows = level.shared ? 1.0 : static_cast<double>(std::min(replicas_of(from), replicas_of(to)));
    slowest = std::max(slowest, directions * bytes / level.bandwidth_bytes_per_s / flows);
  }
  return slowest;
}

bool updates_by_group(const plan& p) {
  return p.schedule != fbp_schedule && resolve_schedule(request_of(p, 1)).updates.per_minibatch_group;
}

/// What is busiest; memory where it made a stage compute forwards twice.
std::string binding_of(const plan& p, const machine& m, const outcome& result, const cluster& c) {
  for (std::size_t s = 0; s < p.stages.size(); ++s)
    if (p.stages[s].recompute &&
        c.devices[static_cast<std::size_t>(c.type_of(m.stages[s].devices.front()))].memory_bytes > 0)
      return "memory of stage " + std::to_string(s);
  std::string name;
  double busiest = -1;
  const auto consider = [&](double share, const std::string& what) {
    if (share <= busiest) return;
    busiest = share;
    name = what;
  };
  const auto positions = positions_of(p);
  for (std::size_t s = 0; s < positions; ++s) {
    double busy = 0;
    for (auto hosted = s; hosted < p.stages.size(); hosted += positions)
      busy += result.busy[hosted];
    consider(busy * result.step_seconds,
             std::string("compute of ") + (p.chunks > 1 ? "worker " : "stage ") + std::to_string(s));
  }
  for (std::size_t s = 0; s + 1 < p.stages.size(); ++s)
    consider(link_seconds(m, s, p, c), "link " + std::to_string(s) + "-" + std::to_string(s + 1));
  const bool by_group = updates_by_group(p);
  for (std::size_t s = 0; s < p.stages.size(); ++s)
    consider(result.all_reduce_seconds[s] / (by_group ? p.stages[s].replicas : 1),
             "all-reduce of stage " + std::to_string(s));
  return name;
}

/// Of the whole model over as many devices, each update with as many minibatches as the plan's own schedule would have
/// on that many replicas: 2 (N - 1) / N W a device (PipeDream, SOSP'19 section 3.1).
double data_parallel_bytes(const plan& p, const machine& m) {
  double weights = 0, devices = 0;
  for (const auto& stage : m.stages) {
    weights += stage.weight_bytes;
    devices += static_cast<double>(replicas_of(stage)) / p.chunks;
  }
  const auto per_update = 2 * (devices - 1) * weights;
  return updates_by_group(p) ? per_update / devices : per_update;
}

stage_memory memory_of(const simulated_memory& m) {
  return {.weights = m.weights,
          .gradients = m.gradients,
          .optimizer_state = m.optimizer_state,
          .activations = m.activations,
          .workspace = m.workspace,
          .total = m.total};
}

/// `played` has the times, `plain` what crosses between stages.
std::vector<stage_prediction> stages_of(const plan& p, const machine& played, const machine& plain,
                                        const outcome& result, const cluster& c) {
  std::vector<stage_prediction> stages;
  const auto last = played.stages.size() - 1;
  const auto added = [&](std::size_t s) { // most backwards add to gradients where a replica has several
    return p.microbatches > p.stages[s].replicas ? played.stages[s].accumulate_seconds : 0;
  };
  for (std::size_t s = 0; s <= last; ++s)
    stages.push_back({.forward_seconds = played.stages[s].forward_seconds.front(),
                      .backward_seconds = played.stages[s].backward_seconds.front() + added(s),
                      .update_seconds = played.stages[s].update_seconds,
                      .all_reduce_seconds = result.all_reduce_seconds[s],
                      .send_seconds = s < last ? send_seconds(plain.stages[s], plain.stages[s + 1], c) : 0,
                      .busy = result.busy[s],
                      .memory = memory_of(result.memory[s])});
  return stages;
}

} // namespace

std::vector<double> steady_busy(const machine_run& run, std::int64_t minibatches) {
  std::vector<double> shares;
  for (const auto seconds : run.busy) {
    const auto of_one = seconds / static_cast<double>(minibatches);
    shares.push_back(run.step_seconds > 0 ? std::min(1.0, of_one / run.step_seconds) : 0);
  }
  return shares;
}

double steady_bubble(const std::vector<double>& busy, const machine& m, int chunks) {
  double working = 0, workers = 0;
  for (std::size_t s = 0; s < m.stages.size(); ++s) {
    working += busy[s] * static_cast<double>(replicas_of(m.stages[s]));
    workers += static_cast<double>(replicas_of(m.stages[s])) / chunks; // a position's stages have the same
  }
  return std::clamp(1 - working / workers, 0.0, 1.0);
}

std::vector<bool> frozen_layers(const plan& p, const profile& of) {
  std::vector<bool> frozen(of.layers.size());
  if (p.frozen_until == 0) return frozen;
  cuts_of(p, names_of(of)); // refuses layers that are not the model's
  const auto end = p.layer_order.begin() + p.frozen_until;
  for (std::size_t l = 0; l < frozen.size(); ++l)
    frozen[l] = std::find(p.layer_order.begin(), end, of.layers[l].name) != end;
  return frozen;
}

cluster with_frozen_profiles(cluster c, const std::vector<bool>& frozen) {
  for (auto& type : c.devices)
    if (type.own_profile && type.own_profile->layers.size() == frozen.size())
      type.own_profile = std::make_shared<const profile>(frozen_costs(*type.own_profile, frozen));
  return c;
}

plan predict(const plan& given, const profile& p, const cluster& c) {
  auto known = given;
  settle_frozen(known, names_of(p));
  check_plan(known);
  if (const auto frozen = frozen_layers(known, p); !is_frozen_so(p, frozen))
    return predict(known, frozen_costs(p, frozen), with_frozen_profiles(c, frozen));
  const auto devices = with_streaming_profiles(c, p);
  auto done = placed(known, p, devices);
  const auto plain = machine_of(done, p, devices);
  auto played = plain;
  double streamed_bytes = 0;
  if (runs_on_streaming(plain, devices)) done.simulation_only = true;
  if (done.simulation_only && done.schedule != fbp_schedule)
    streamed_bytes = stream_through(played, devices, in_flight_of(done), done.microbatches);
  const auto result = done.schedule == fbp_schedule ? play_streaming(done, plain, devices) : play(done, played);
  done.predicted =
      prediction{.step_seconds = result.step_seconds,
                 .speedup_over_one_device =
                     result.step_seconds > 0 ? one_device_seconds(done, p, devices) / result.step_seconds : 0,
                 .bubble = steady_bubble(result.busy, played, done.chunks),
                 .bytes_per_minibatch = result.bytes_per_minibatch + streamed_bytes,
                 .data_parallel_bytes_per_minibatch = data_parallel_bytes(done, plain),
                 .binding = binding_of(done, plain, result, devices),
                 .stages = stages_of(done, played, plain, result, devices),
                 .costs = std::move(played)};
  return done;
}

} // namespace penstock::planner
