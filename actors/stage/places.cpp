// From stages and options to places.
#include "actors/stage/places.hpp"

#include <algorithm>
#include <set>

namespace penstock::actors {

namespace {

stage_place stage_place_of(const pipeline& p, const stage_unit& s, int replica, const run_options& options) {
  return {.stage = s.index,
          .replica = replica,
          .replicas = static_cast<int>(s.replicas.size()),
          .is_first = s.is_first,
          .is_first_active = s.is_first_active,
          .is_last = s.is_last,
          .reads_inputs = !s.is_first && !s.layers->fed().empty(),
          .tells_metrics = tells_metrics(s),
          .recomputes = s.recomputes,
          .sends_buckets = p.where.hosts(s.index).size() > 1,
          .stops_on_nonfinite = options.stop_on_nonfinite,
          .seed = options.seed,
          .layers = s.layers};
}

} // namespace

worker_place place_of(const pipeline& p, const planner::worker& w, const run_options& options,
                      std::int64_t source_credit, std::int64_t plan_epoch) {
  worker_place place{.plan_epoch = plan_epoch, .position = w.position, .replica = w.replica};
  // Several sources admit in whole rounds of stage 0's replicas; with one source this is a looser bound.
  const auto round = static_cast<std::int64_t>(p.stages.front().replicas.size());
  source_credit = (source_credit + round - 1) / round * round;
  for (const int stage : p.stages_at(w.position)) {
    auto one = stage_place_of(p, p.stages[static_cast<std::size_t>(stage)], w.replica, options);
    one.plan_epoch = plan_epoch;
    one.source_credit = source_credit;
    place.stages.push_back(std::move(one));
  }
  return place;
}

std::vector<std::string> input_names(const model& net) {
  std::vector<std::string> names;
  for (const auto& input : net.inputs())
    names.push_back(net.value(input.value).name);
  return names;
}

std::vector<input_reader> input_readers(const pipeline& p) {
  std::vector<input_reader> readers;
  for (const auto& s : p.stages) {
    input_reader reader{.stage = s.index};
    for (const auto id : s.layers->fed())
      for (std::size_t i = 0; i < p.net->inputs().size(); ++i)
        if (p.net->inputs()[i].value == id) reader.inputs.push_back(static_cast<int>(i));
    if (s.is_first || !reader.inputs.empty()) readers.push_back(std::move(reader));
  }
  return readers;
}

std::vector<shared_tensor> shared_tensors(const pipeline& p, int stage) {
  std::vector<shared_tensor> shared;
  const auto& own = p.stages.at(static_cast<std::size_t>(stage)).layers->parameters();
  for (const auto& tie : p.net->ties()) {
    if (p.stages.back().layers->is_frozen(tie.uses.front().layer)) continue; // it has no gradient
    shared_tensor t{.name = tie.name, .stages = {}};
    for (auto s = p.stages.rbegin(); s != p.stages.rend(); ++s) {
      const auto& used = s->layers->parameters();
      if (std::any_of(used.begin(), used.end(), [&](const auto& u) { return u.name == tie.name; }))
        t.stages.push_back(s->index);
    }
    for (std::size_t i = own.size(); i-- > 0;)
      if (own[i].name == tie.name) t.parameters.push_back(i);
    if (t.stages.size() < 2 || t.parameters.empty()) continue;
    t.counts_here = t.stages.back() == stage;
    shared.push_back(std::move(t));
  }
  return shared;
}

std::vector<int> sharers_of(const pipeline& p, int stage) {
  std::set<int> others;
  for (const auto& t : shared_tensors(p, stage))
    others.insert(t.stages.begin(), t.stages.end());
  others.erase(stage);
  return {others.begin(), others.end()};
}

std::vector<named_tensor> uses_of(const std::vector<shared_tensor>& shared, const std::vector<tensor>& gradients) {
  std::vector<named_tensor> uses;
  for (const auto& t : shared)
    for (const auto i : t.parameters)
      uses.push_back({t.name, gradients.at(i)});
  return uses;
}

int first_active_stage(const pipeline& p) {
  const auto found = std::find_if(p.stages.begin(), p.stages.end(), [](const auto& s) { return s.is_first_active; });
  return static_cast<int>(found - p.stages.begin());
}

int metrics_tellers(const pipeline& p) {
  return static_cast<int>(std::count_if(p.stages.begin(), p.stages.end(), tells_metrics));
}

coordinator_place place_of(const pipeline& p, const run_options& options) {
  coordinator_place place{.rank = p.rank, .ranks = p.where.ranks, .source_ranks = p.where.hosts(0)};
  place.has_source = p.stages.front().is_local();
  place.has_metrics = p.rank == 0;
  place.stages = p.stages.size();
  place.frozen_stages = static_cast<std::size_t>(first_active_stage(p));
  place.training_parts = (place.has_source ? 1 : 0) + (place.has_metrics ? 1 : 0);
  for (const auto& s : p.stages) // the workers here, and an optimizer a stage
    if (s.is_local()) place.training_parts += 1 + (s.index < p.positions() ? s.local.size() : 0);
  place.clip_norm = options.clip_norm;
  place.stall_seconds = options.stall_seconds;
  return place;
}

} // namespace penstock::actors
