// Cores in place of actors.
#include "tests/actors/scripted/scripted_site.hpp"

#include "actors/stage/places.hpp"
#include "actors/stage/stage_copies.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/reference/reference_backend.hpp"

#include <cstring>
#include <utility>

namespace penstock::testing {

using namespace actors; // NOLINT: a test speaks of little else

scripted_site::scripted_site(const scripted_case& what, int rank)
    : parts(build_pipeline(*what.plan.plan, what.plan.options, what.inputs.net, rank)) {
  const auto& first = parts->stages.front();
  auto place = place_of(*parts, what.plan.options);
  if (place.has_source)
    source.emplace(source_place{.inputs = input_names(*parts->net),
                                .readers = input_readers(*parts),
                                .replicas = static_cast<int>(first.replicas.size()),
                                .local = first.local,
                                .ahead = 3});
  if (place.has_metrics) metrics.emplace(metrics_tellers(*parts));
  for (auto& s : parts->stages)
    if (s.is_local()) open_stage(what, s);
  open_workers(what);
  coordinator.emplace(std::move(place));
}

void scripted_site::open_stage(const scripted_case& what, stage_unit& s) {
  constexpr std::size_t small_buckets = 64;
  const auto& where = parts->where;
  const bool is_split = where.hosts(s.index).size() > 1;
  if (is_split)
    buckets[s.index] =
        std::make_shared<const bucket_cuts>(plan_buckets(*s.layers, s.owned.newest->tensors, small_buckets));
  ops[s.index] = make_reference_backend(*s.first_local().memory);
  auto reducer = is_split ? make_rank_reducer(s.local, s.layers->parameters().size(), *buckets[s.index])
                          : make_local_reducer(static_cast<int>(s.replicas.size()));
  optimizers[s.index] = std::make_unique<optimizer_core>(
      optimizer_place{s.index, where.owner(s.index) == parts->rank, shared_tensors(*parts, s.index)}, what.plan.options,
      std::move(s.owned), std::move(reducer));
}

void scripted_site::open_workers(const scripted_case& what) {
  for (int position = 0; position < parts->positions(); ++position)
    for (const int r : unit(position).local) {
      std::vector<std::vector<tensor>> states;
      for (const int stage : parts->stages_at(position))
        states.push_back(std::move(unit(stage).replicas[static_cast<std::size_t>(r)].states));
      workers[{position, r}] = std::make_unique<worker_core>(
          place_of(*parts, {position, r}, what.plan.options, what.plan.dealing.source_credit()), std::move(states));
    }
}

void scripted_site::copy_into(std::map<int, stage_copy>& copies, memory_pool& pool) {
  outcome tells;
  for (auto& [stage, o] : optimizers) {
    copies[stage].merge(
        copy_learnt(*ops[stage], *parts, unit(stage), *o->owned(), copy_of::everything, "", pool, tells));
    for (const int r : unit(stage).local)
      copies[stage].merge(copy_states(*ops[stage], unit(stage), r, worker(stage, r).stage(stage).states(),
                                      copy_of::everything, "", pool, tells));
  }
}

void scripted_site::open_gate(std::int64_t stretch) {
  open = stretch;
  for (auto& [of, pass] : std::exchange(held, {}))
    if (of == stretch)
      pass();
    else
      held.emplace_back(of, pass);
}

std::string scripted_site::waits() const {
  std::string text;
  for (const auto& [at, core] : workers)
    text += core->describe_wait() + "; ";
  for (const auto& [stage, core] : optimizers)
    text += core->describe() + "; ";
  return text;
}

// In replica order, as the transport sums.
reduced_msg scripted_site::sum_of(int stage, const std::map<int, reduce_bucket>& bucket_of) {
  auto& with = *ops.at(stage);
  const auto& any = bucket_of.begin()->second;
  reduced_msg m{any.stretch, any.group, any.bucket, 0, {}};
  std::map<int, const std::vector<tensor>*> by_replica;
  for (const auto& [rank, part] : bucket_of) {
    const auto local = parts->where.replicas_on(stage, rank);
    for (std::size_t i = 0; i < local.size(); ++i)
      if (part.gradients[i]) by_replica[local[i]] = &*part.gradients[i];
  }
  if (any.counts) m.members = static_cast<std::int64_t>(by_replica.size());
  for (const auto& [replica, gradients] : by_replica) {
    m.gradients.resize(gradients->size());
    for (std::size_t i = 0; i < gradients->size(); ++i) {
      const auto& g = (*gradients)[i];
      if (m.gradients[i]) {
        with.get<elementwise_ops>().accumulate(m.gradients[i], g);
        continue;
      }
      m.gradients[i] = with.allocate(g.type(), g.dims(), memory_use::gradients, g.format());
      std::memcpy(m.gradients[i].raw(), g.raw(), g.bytes());
    }
  }
  return m;
}

std::shared_ptr<microbatch_loader> training_loader_of(const scripted_case& what) {
  return std::make_shared<microbatch_loader>(what.inputs.net, *what.inputs.train, training_batches(what.plan.options),
                                             what.plan.plan->microbatches);
}

} // namespace penstock::testing
