// Who is here, who is elsewhere, and who talks to whom.
#include "actors/run/wiring.hpp"

#include "actors/optimizer/optimizer_actor.hpp"
#include "actors/ranks/job.hpp"
#include "actors/ranks/link_actor.hpp"
#include "actors/stage/places.hpp"
#include "kernels/check.hpp"
#include "kernels/device_kinds.hpp"

#include <utility>

namespace penstock::actors {

namespace {

class wirer {
public:
  wirer(caf::actor_system& system, const context_ptr& context, const planner::schedule& dealing,
        const caf::actor& coordinator, gate* incoming, const std::function<void(const caf::actor&)>& made)
      : system_(system), context_(context), dealing_(dealing), coordinator_(coordinator), gate_(incoming), made_(made),
        parts_(context->services.built) {}

  wired_actors wire() {
    check(dealing_.stages.size() == parts_.stages.size(), "the schedule has another number of stages");
    spawn_ends();
    find_workers();
    spawn_optimizers();
    find_optimizers();
    connect();
    return std::move(all_);
  }

private:
  bool is_here(int rank) const { return rank == parts_.rank; }
  caf::actor link(int rank, const address& to) { return make_link(system_, context_, rank, to); }
  void admit(const address& who, const caf::actor& actor, memory_pool* pool = nullptr) {
    if (gate_ != nullptr) gate_->admit(who, actor, pool);
  }

  /// Of every actor made here.
  void name(const caf::actor& made, std::string what) {
    all_.names[made->address()] = std::move(what);
    made_(made);
  }
  void spawn_ends();
  void plan_all_buckets();
  void spawn_worker_here(const planner::worker& w);
  void find_workers();
  void spawn_optimizers();
  std::vector<caf::actor> sharers(int stage);
  void find_optimizers();
  neighbour_side side_of(int stage) const;
  neighbour_side layer_actor_side(const layer_actor_factory& factory, int stage, const neighbour_side& before,
                                  const neighbour_side& behind);
  void connect();
  std::vector<caf::actor> sources();

  caf::actor_system& system_;
  const context_ptr& context_;
  const planner::schedule& dealing_;
  const caf::actor& coordinator_;
  gate* gate_;
  const std::function<void(const caf::actor&)>& made_;
  pipeline& parts_;
  std::vector<std::shared_ptr<const bucket_cuts>> buckets_; // by stage
  wired_actors all_;
};

void wirer::spawn_ends() {
  const int loaders = std::max(1, context_->services.options.loader_threads);
  if (const auto& first = parts_.stages.front(); first.is_local()) {
    all_.source = spawn_source(system_, context_,
                               {.plan_epoch = context_->services.plan_epoch,
                                .inputs = input_names(*parts_.net),
                                .readers = input_readers(parts_),
                                .replicas = static_cast<int>(first.replicas.size()),
                                .local = first.local,
                                .evaluating = parts_.net->carries() ? 1 : static_cast<int>(first.replicas.size()),
                                .ahead = 2 * loaders,
                                .first_active = first_active_stage(parts_)});
    name(all_.source, "the source");
    admit({address::part::source, 0, 0}, all_.source);
    for (int i = 0; i < loaders; ++i) {
      all_.loaders.push_back(spawn_loader(system_, context_, all_.source));
      name(all_.loaders.back(), "a loader");
    }
  }
  if (is_here(0)) {
    all_.metrics = spawn_metrics(system_, context_);
    name(all_.metrics, "metrics");
    admit({address::part::metrics, 0, 0}, all_.metrics);
    admit({address::part::coordinator, 0, 0}, coordinator_);
    all_.clipper = coordinator_;
  } else {
    all_.clipper = link(0, {address::part::coordinator, 0, 0});
  }
}

// Of stages whose replicas are on several ranks.
void wirer::plan_all_buckets() {
  buckets_.resize(parts_.stages.size());
  for (const auto& s : parts_.stages)
    if (s.is_local() && parts_.where.hosts(s.index).size() > 1)
      buckets_[static_cast<std::size_t>(s.index)] =
          std::make_shared<const bucket_cuts>(plan_buckets(*s.layers, s.owned.newest->tensors));
}

// What a worker's stages have learnt so far moves to it.
void wirer::spawn_worker_here(const planner::worker& w) {
  auto place = place_of(parts_, w, context_->services.options, dealing_.source_credit(), context_->services.plan_epoch);
  std::vector<hosted_stage> hosted;
  for (const auto& s : place.stages) {
    const auto i = static_cast<std::size_t>(s.stage);
    auto& own = parts_.stages[i].replicas[static_cast<std::size_t>(w.replica)];
    hosted.push_back({std::exchange(own.states, {}), std::exchange(own.carried, {}), buckets_[i]});
  }
  const auto stages = place.stages;
  auto what = penstock::actors::name_of(place);
  const auto made = spawn_worker(system_, context_, std::move(place), std::move(hosted));
  all_.local_workers.push_back(caf::actor_cast<caf::actor>(made));
  name(all_.local_workers.back(), std::move(what));
  for (const auto& s : stages) {
    const auto i = static_cast<std::size_t>(s.stage);
    all_.stages[i].push_back(made);
    admit({address::part::replica, s.stage, w.replica}, all_.local_workers.back(),
          parts_.stages[i].replicas[static_cast<std::size_t>(w.replica)].memory->host_memory());
  }
}

void wirer::find_workers() {
  plan_all_buckets();
  all_.stages.resize(parts_.stages.size());
  for (const auto& w : workers_of(dealing_)) {
    if (is_here(parts_.where.host(w.position, w.replica))) {
      spawn_worker_here(w);
      continue;
    }
    for (const int stage : stages_at(dealing_, w.position))
      all_.stages[static_cast<std::size_t>(stage)].push_back(caf::actor_cast<worker_actor>(
          link(parts_.where.host(stage, w.replica), {address::part::replica, stage, w.replica})));
  }
}

void wirer::spawn_optimizers() {
  for (auto& s : parts_.stages) {
    const auto i = static_cast<std::size_t>(s.index);
    auto& made = all_.optimizers.emplace_back();
    if (!s.is_local()) continue;
    made = spawn_optimizer(system_, context_, s.index, std::exchange(s.owned, {}), buckets_[i]);
    name(made, "optimizer of stage " + std::to_string(s.index));
    admit({address::part::optimizer, s.index, 0}, made);
  }
  for (const auto& s : parts_.stages) {
    if (!s.is_local()) continue;
    const auto i = static_cast<std::size_t>(s.index);
    std::vector<worker_actor> local;
    for (const int r : s.local)
      local.push_back(all_.stages[i][static_cast<std::size_t>(r)]);
    caf::anon_send(all_.optimizers[i], connect_optimizer_msg{std::move(local), all_.clipper, sharers(s.index)});
  }
}

// The optimizers of other stages that use one of its tensors, on every rank that has one.
std::vector<caf::actor> wirer::sharers(int stage) {
  std::vector<caf::actor> all;
  for (const int other : sharers_of(parts_, stage))
    for (const int rank : parts_.where.hosts(other))
      all.push_back(is_here(rank) ? all_.optimizers[static_cast<std::size_t>(other)]
                                  : link(rank, {address::part::optimizer, other, 0}));
  return all;
}

void wirer::find_optimizers() {
  if (!is_here(0)) return;
  for (const auto& s : parts_.stages)
    for (const int rank : parts_.where.hosts(s.index))
      all_.all_optimizers.push_back(is_here(rank) ? all_.optimizers[static_cast<std::size_t>(s.index)]
                                                  : link(rank, {address::part::optimizer, s.index, 0}));
}

neighbour_side wirer::side_of(int stage) const {
  neighbour_side side;
  for (const auto& s : all_.stages[static_cast<std::size_t>(stage)])
    side.replicas.push_back(s);
  const auto replicas = static_cast<std::int64_t>(side.replicas.size());
  // Batches of an evaluation that continue each other go one way.
  const auto evaluating = parts_.net->carries() ? 1 : replicas;
  side.deal = [dealing = dealing_, stage, evaluating](const message_key& k) {
    if (k.mode == phase::evaluation) return static_cast<int>(k.since_drain % evaluating);
    return planner::replica_of(dealing, stage, k.since_drain, k.microbatch);
  };
  return side;
}

// A layer actor lives where the first replica of the stage before it does.
neighbour_side wirer::layer_actor_side(const layer_actor_factory& factory, int stage, const neighbour_side& before,
                                       const neighbour_side& behind) {
  const address here{address::part::cut, stage, 0};
  const int rank = parts_.where.owner(stage);
  neighbour_actor between;
  if (is_here(rank)) {
    const auto& options = context_->services.options;
    const auto device = open_device(options.device, 0);
    between = factory.spawn(
        system_,
        {before, behind, device->create_stream({.name = "layer actor", .reference = options.reference_kernels})});
    all_.layer_actors.push_back(caf::actor_cast<caf::actor>(between));
    name(all_.layer_actors.back(), "the layer actor after " + factory.after_layer());
    admit(here, all_.layer_actors.back());
  } else {
    between = caf::actor_cast<neighbour_actor>(link(rank, here));
  }
  return {{between}, [](const message_key&) { return 0; }};
}

// One source for each replica of stage 0, by the rank that hosts it.
std::vector<caf::actor> wirer::sources() {
  std::vector<caf::actor> all;
  for (int r = 0; r < static_cast<int>(parts_.stages.front().replicas.size()); ++r) {
    const int rank = parts_.where.host(0, r);
    all.push_back(is_here(rank) ? all_.source : link(rank, {address::part::source, 0, 0}));
  }
  return all;
}

void wirer::connect() {
  const int n = static_cast<int>(parts_.stages.size());
  std::vector<neighbour_side> left(parts_.stages.size());  // what stage s sends gradients to
  std::vector<neighbour_side> right(parts_.stages.size()); // what stage s sends activations to
  for (int s = 0; s + 1 < n; ++s) {
    const auto su = static_cast<std::size_t>(s);
    right[su] = side_of(s + 1);
    left[su + 1] = side_of(s);
    const auto& cut_after = parts_.net->layers()[static_cast<std::size_t>(parts_.stages[su].layers->last() - 1)].name;
    for (const auto& factory : context_->services.inputs.layer_actors) {
      if (factory->after_layer() != cut_after) continue;
      parts_.stages[su].before_layer_actor = parts_.stages[su + 1].after_layer_actor = true;
      const auto only = layer_actor_side(*factory, s, left[su + 1], right[su]);
      right[su] = left[su + 1] = only;
    }
  }
  const auto metrics = is_here(0) ? all_.metrics : link(0, {address::part::metrics, 0, 0});
  const auto first = side_of(0);
  const auto from = sources();
  for (const auto& s : parts_.stages)
    for (const int r : s.local) {
      const auto i = static_cast<std::size_t>(s.index);
      caf::anon_send(all_.stages[i][static_cast<std::size_t>(r)],
                     connect_stage_msg{s.index, left[i], right[i], from, first.deal, metrics, all_.optimizers[i]});
    }
  if (!all_.source) return;
  connect_source_msg m{first, {}, {}, all_.loaders};
  std::map<int, std::function<int(const message_key&)>> deals;
  for (const auto& reader : input_readers(parts_)) {
    m.readers[reader.stage] = all_.stages[static_cast<std::size_t>(reader.stage)];
    deals[reader.stage] = side_of(reader.stage).deal;
  }
  m.deal = [deals = std::move(deals)](int stage, const message_key& k) { return deals.at(stage)(k); };
  caf::anon_send(all_.source, std::move(m));
}

} // namespace

std::string wired_actors::name_of(const caf::actor_addr& who) const {
  const auto found = names.find(who);
  return found == names.end() ? std::string() : found->second;
}

std::vector<caf::actor> wired_actors::everyone() const {
  std::vector<caf::actor> all{source, metrics};
  for (const auto* some : {&loaders, &optimizers, &local_workers, &layer_actors})
    all.insert(all.end(), some->begin(), some->end());
  std::erase_if(all, [](const caf::actor& a) { return !a; });
  return all;
}

wired_actors wire_actors(caf::actor_system& system, const context_ptr& context, const planner::schedule& dealing,
                         const caf::actor& coordinator, gate* incoming,
                         const std::function<void(const caf::actor&)>& made) {
  return wirer(system, context, dealing, coordinator, incoming, made).wire();
}

} // namespace penstock::actors
