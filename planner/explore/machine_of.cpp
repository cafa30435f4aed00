// Builds the machine that plays a plan.
#include "planner/explore/predict.hpp"
#include "planner/explore/stage_sums.hpp"
#include "planner/search/column_blocks.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace penstock::planner {

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

std::string stage_name(std::size_t s) {
  return "stage " + std::to_string(s);
}

void check_same_model(const plan& p, const profile& of) {
  if (!p.model.empty() && p.model != of.model)
    refuse("the plan is for the model '" + p.model + "', the profile is of '" + of.model + "', wanted one of the same");
  if (!p.model_options.empty() && p.model_options != of.model_options)
    refuse("the plan is for '" + p.model_options + "', the profile is of '" + of.model_options +
           "', wanted one of the same");
}

void take_devices_in_order(plan& p, const cluster& c) {
  int next = 0;
  const auto positions = positions_of(p);
  for (std::size_t s = 0; s < p.stages.size(); ++s)
    if (auto& stage = p.stages[s]; s >= positions)
      stage.devices = p.stages[s % positions].devices;
    else
      for (int r = 0; r < stage.replicas; ++r)
        stage.devices.push_back(c.device_name(next++));
}

std::vector<int> device_numbers(const planned_stage& stage, std::size_t s, const cluster& c) {
  std::vector<int> numbers;
  for (const auto& name : stage.devices) {
    numbers.push_back(c.device_named(name));
    if (c.type_of(numbers.back()) != c.type_of(numbers.front()))
      refuse(stage_name(s) + " has replicas on " + stage.devices.front() + " and " + name + ", wanted one type");
  }
  return numbers;
}

/// A device type with the profile that speaks for it.
struct pace {
  const profile* costs;
  double speed;
  int threads;
};

pace pace_of(const device_type& type, const plan& p, const profile& of) {
  const auto* costs = type.own_profile ? type.own_profile.get() : &of;
  if (costs->layers.size() != of.layers.size() ||
      !std::equal(costs->layers.begin(), costs->layers.end(), of.layers.begin(),
                  [](const auto& a, const auto& b) { return a.name == b.name; }))
    refuse("the profile of device type '" + type.name + "' has other layers than that of the model '" + of.model +
           "', wanted the same model's");
  const auto threads = type.threads > 0 ? type.threads
                       : p.threads > 0  ? p.threads
                                        : costs->measurements.front().threads;
  return {costs, type.own_profile ? 1 : type.speed, threads};
}

/// True when a message from one to the other passes references all the way.
bool is_by_reference(const std::vector<int>& from, const std::vector<int>& to, const cluster& c) {
  const auto [first_from, last_from] = std::minmax_element(from.begin(), from.end());
  const auto [first_to, last_to] = std::minmax_element(to.begin(), to.end());
  // Components are runs of consecutive numbers, so the outermost level joins the extremes.
  const auto level = c.level_between(std::min(*first_from, *first_to), std::max(*last_from, *last_to));
  return std::all_of(c.levels.begin(), c.levels.begin() + level + 1, [](const auto& l) { return l.by_reference; });
}

/// A list of equal numbers as one number.
std::vector<double> shortened(std::vector<double> values) {
  if (std::all_of(values.begin(), values.end(), [&](double v) { return v == values.front(); })) values.resize(1);
  return values;
}

struct stage_manner {
  bool recomputes = false;
  bool copies_input = false;      ///< what comes in is not the sender's own tensor
  bool next_keeps_output = false; ///< the next stage recomputes from this one's own tensor
  bool accumulates = false;       ///< several micro-batches of an update on one replica
  int optimizer_copies = 1;
};

/// What lives from forward to backward. A stage that recomputes keeps its inputs: the model's are nobody's, and those
/// that came by reference are the sender's, which holds them as long.
double kept_bytes(const stage_costs& load, const stage_manner& how) {
  const double input = how.copies_input ? load.input_bytes : 0;
  const double output = how.recomputes ? load.output_bytes : load.unkept_output_bytes;
  return (how.recomputes ? 0 : load.kept_bytes) + input + (how.next_keeps_output ? output : 0);
}

machine_stage costs_of(const std::vector<const stage_costs*>& loads, const stage_manner& how) {
  machine_stage costs;
  const auto& whole = *loads.front(); // the largest micro-batch comes first
  costs.accumulate_seconds = whole.accumulate_seconds;
  costs.update_seconds = whole.update_seconds;
  costs.weight_bytes = costs.gradient_bytes = whole.weight_bytes;
  costs.optimizer_bytes = how.optimizer_copies * whole.weight_bytes;
  costs.frozen_bytes = whole.frozen_bytes;
  std::vector<double> forward, backward, weight, output, unkept, kept, delayed, workspace, backward_workspace,
      weight_workspace;
  for (const auto* load : loads) {
    const double again = how.recomputes ? load->kept_bytes : 0;
    forward.push_back(load->forward_seconds);
    backward.push_back(load->backward_seconds + (how.recomputes ? load->forward_seconds : 0));
    weight.push_back(std::min(load->weight_seconds, backward.back()));
    delayed.push_back(load->delayed_bytes);
    output.push_back(load->output_bytes);
    // What a stage that recomputes puts out is kept by nobody there.
    unkept.push_back(how.next_keeps_output ? 0 : how.recomputes ? load->output_bytes : load->unkept_output_bytes);
    kept.push_back(kept_bytes(*load, how));
    workspace.push_back(load->workspace_bytes);
    backward_workspace.push_back(
        again + std::max(how.recomputes ? load->workspace_bytes : load->backward_workspace_bytes,
                         how.accumulates ? load->accumulating_workspace_bytes : load->backward_workspace_bytes));
  }
  for (const auto* load : loads)
    weight_workspace.push_back(
        std::max(0.0, how.accumulates ? load->accumulating_workspace_bytes : load->backward_workspace_bytes));
  costs.weight_workspace_bytes = shortened(std::move(weight_workspace));
  costs.forward_seconds = shortened(std::move(forward));
  costs.backward_seconds = shortened(std::move(backward));
  costs.weight_seconds = shortened(std::move(weight));
  costs.delayed_bytes = shortened(std::move(delayed));
  costs.output_bytes = shortened(std::move(output));
  costs.kept_bytes = shortened(std::move(kept));
  costs.unkept_output_bytes = shortened(std::move(unkept));
  costs.workspace_bytes = shortened(std::move(workspace));
  costs.backward_workspace_bytes = shortened(std::move(backward_workspace));
  return costs;
}

/// On one replica: there are as many blocks of a minibatch's columns as the least common multiple of the replica
/// counts.
double carried_bytes(const plan& p, std::size_t stage, const std::vector<int>& layers, const profile& of) {
  double per_column = 0;
  for (const auto i : layers)
    per_column += of.layers[static_cast<std::size_t>(i)].carried_bytes;
  const auto blocks = static_cast<double>(column_blocks_of(replicas_of(p)));
  return per_column * static_cast<double>(p.batch) * blocks / p.stages[stage].replicas;
}

std::vector<machine_link> links_of(const cluster& c) {
  std::vector<machine_link> links;
  for (const auto& level : c.levels)
    links.push_back({.group = level.group,
                     .bytes_per_second = level.bandwidth_bytes_per_s,
                     .latency_s = level.latency_s,
                     .shared = level.shared,
                     .half_duplex = level.half_duplex,
                     .by_reference = level.by_reference});
  return links;
}

} // namespace

plan placed(const plan& given, const profile& p, const cluster& c) {
  check_same_model(given, p);
  auto done = settled(given);
  if (done.batch == 0)
    for (const auto& m : p.measurements)
      done.batch = std::max(done.batch, m.samples);
  const auto workers = workers_of(done);
  if (workers > c.device_count())
    refuse("the plan has " + std::to_string(workers) +
           (done.chunks > 1 ? " workers, the cluster " : " replicas over all stages, the cluster ") +
           std::to_string(c.device_count()) + " devices");
  if (done.stages.front().devices.empty()) take_devices_in_order(done, c);
  for (std::size_t s = 0; s < done.stages.size(); ++s)
    device_numbers(done.stages[s], s, c);
  return done;
}

machine machine_of(const plan& given, const profile& p, const cluster& c) {
  const auto done = placed(given, p, c);
  const auto layers = layers_of_stages(done, p);
  std::vector<std::vector<std::vector<stage_costs>>> loads(c.devices.size()); // by type: large and small micro-batches
  const auto larger = microbatch_samples(done.batch, done.microbatches, 0);
  const auto smaller = microbatch_samples(done.batch, done.microbatches, done.microbatches - 1);
  machine m;
  m.links = links_of(c);
  const auto frozen = static_cast<std::size_t>(frozen_stages_of(done));
  for (std::size_t s = 0; s < done.stages.size(); ++s) {
    const auto devices = device_numbers(done.stages[s], s, c);
    const auto type = static_cast<std::size_t>(c.type_of(devices.front()));
    if (loads[type].empty()) {
      const auto pace = pace_of(c.devices[type], done, p);
      for (const auto samples : {larger, smaller})
        loads[type].push_back(
            costs_of_stages(layers, *pace.costs, static_cast<double>(samples), pace.threads, pace.speed));
    }
    std::vector<const stage_costs*> of_microbatches;
    for (int i = 0; i < (larger == smaller ? 1 : done.microbatches); ++i)
      of_microbatches.push_back(
          &loads[type][microbatch_samples(done.batch, done.microbatches, i) == larger ? 0 : 1][s]);
    const auto next = s + 1 < done.stages.size() ? device_numbers(done.stages[s + 1], s + 1, c) : std::vector<int>{};
    m.stages.push_back(costs_of(
        of_microbatches,
        {.recomputes = done.stages[s].recompute,
         // A frozen stage lets go of what it has sent, whoever keeps it.
         .copies_input = s > 0 && (s == frozen || !is_by_reference(m.stages[s - 1].devices, devices, c)),
         .next_keeps_output = !next.empty() && done.stages[s + 1].recompute && is_by_reference(devices, next, c),
         .accumulates = done.microbatches > done.stages[s].replicas,
         .optimizer_copies = done.optimizer_copies}));
    m.stages.back().devices = devices;
    m.stages.back().state_bytes = carried_bytes(done, s, layers[s], p);
    if (devices.size() > 1) m.stages.back().all_reduce_bytes = m.stages.back().weight_bytes;
  }
  return m;
}

} // namespace penstock::planner
