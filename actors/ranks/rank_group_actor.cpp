// Sums the gradients of a stage whose replicas are on several ranks: an all-reduce, bucket by bucket.
#include "actors/ranks/bucket_plan.hpp"
#include "actors/ranks/channels.hpp"
#include "actors/ranks/job.hpp"
#include "actors/trace/recorder.hpp"
#include "actors/update_actors.hpp"
#include "transport/collectives.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>

namespace penstock::actors {

/// Completion of one bucket.
struct bucket_summed_msg {
  std::int64_t segment = 0;
  std::int64_t group = 0;
  std::size_t bucket = 0;
  std::exception_ptr failure;
};

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::bucket_summed_msg)

namespace penstock::actors {

namespace {

void add_floats(std::byte* onto, const std::byte* from, std::size_t bytes) {
  auto* sum = reinterpret_cast<float*>(onto);
  const auto* term = reinterpret_cast<const float*>(from);
  const auto count = bytes / sizeof(float);
  for (std::size_t i = 0; i < count; ++i)
    sum[i] += term[i];
}

// What one replica on this rank brings to an update.
struct contribution {
  std::vector<tensor> gradients; // by parameter; "none" until they are final
  std::vector<bool> ready;       // by bucket
  bool complete = false;         // its update action has come
  bool takes_part = false;       // it has a minibatch in this update
};

// One update on its way.
struct open_update {
  std::vector<contribution> replicas; // in the order of stage_unit::local
  std::vector<tensor> result;         // by parameter
  std::vector<std::int64_t> begun_ns; // by bucket; 0: not yet
  tensor count;                       // one float: the members that take part, summed with the last bucket
  std::size_t finished = 0;           // buckets
};

class rank_group {
public:
  void start(caf::event_based_actor* self, context_ptr context, int stage, caf::actor optimizer);
  void begin(const begin_segment_msg& m);
  void take(gradient_bucket_msg m);
  void take(gradient_share_msg m);
  void summed(const bucket_summed_msg& m);
  std::string describe() const;
  actor_context& context() { return *context_; }
  const std::string& who() const { return who_; }

private:
  open_update& update_at(std::int64_t group);
  contribution& of(open_update& u, int replica);
  void finish_when_complete(std::int64_t group);
  void start_ready_buckets(std::int64_t group, open_update& u);
  void start_bucket(std::int64_t group, open_update& u, std::size_t bucket);
  std::vector<transport::part> parts_of(const std::vector<tensor>& gradients, const tensor& count,
                                        std::size_t bucket) const;
  void provide_result(open_update& u, const contribution* first, std::size_t bucket);
  void record(const open_update& u, std::int64_t group, std::size_t bucket) const;
  std::uint64_t key_of(std::int64_t group, std::size_t bucket) const;

  caf::event_based_actor* self_ = nullptr;
  context_ptr context_;
  stage_unit* unit_ = nullptr;
  caf::actor optimizer_;
  std::string who_;
  bucket_plan plan_;
  std::unique_ptr<transport::all_reduce> sums_;
  segment_run_ptr run_;
  std::map<std::int64_t, open_update> open_; // by update of the segment
};

void rank_group::start(caf::event_based_actor* self, context_ptr context, int stage, caf::actor optimizer) {
  self_ = self;
  context_ = std::move(context);
  auto& services = context_->services;
  unit_ = &services.parts.stages.at(static_cast<std::size_t>(stage));
  optimizer_ = std::move(optimizer);
  who_ = "replica group of stage " + std::to_string(stage);
  plan_ = plan_buckets(*unit_);
  const transport::group members{services.parts.where.rank_of[static_cast<std::size_t>(stage)]};
  sums_ = std::make_unique<transport::all_reduce>(services.inputs.ranks->data, members, all_reduce_channel(stage),
                                                  add_floats, sizeof(float));
}

// What a drain cut off is of no use to anybody.
void rank_group::begin(const begin_segment_msg& m) {
  run_ = m.run;
  open_.clear();
  sums_->forget_below(key_of(0, 0));
}

std::uint64_t rank_group::key_of(std::int64_t group, std::size_t bucket) const {
  constexpr int bucket_bits = 12;
  constexpr int group_bits = 30;
  check(bucket < (1U << bucket_bits) && group < (std::int64_t{1} << group_bits), "more buckets than keys");
  return (static_cast<std::uint64_t>(run_->segment) << (group_bits + bucket_bits)) |
         (static_cast<std::uint64_t>(group) << bucket_bits) | bucket;
}

open_update& rank_group::update_at(std::int64_t group) {
  auto& u = open_[group];
  if (!u.replicas.empty()) return u;
  const auto parameters = unit_->layers->parameters().size();
  u.replicas.resize(unit_->local.size());
  for (auto& r : u.replicas) {
    r.gradients.resize(parameters);
    r.ready.resize(plan_.size());
  }
  u.result.resize(parameters);
  u.begun_ns.resize(plan_.size());
  u.count = tensor::allocate(unit_->update_memory(), dtype::f32, {1}, memory_use::gradients);
  *u.count.data<float>() = 0;
  return u;
}

contribution& rank_group::of(open_update& u, int replica) {
  const auto at = std::find(unit_->local.begin(), unit_->local.end(), replica);
  return u.replicas.at(static_cast<std::size_t>(at - unit_->local.begin()));
}

void rank_group::take(gradient_bucket_msg m) {
  if (!run_ || m.segment != run_->segment) return;
  auto& u = update_at(m.group);
  auto& mine = of(u, m.replica);
  mine.takes_part = true;
  mine.ready[m.bucket] = true;
  std::move(m.gradients.begin(), m.gradients.end(),
            mine.gradients.begin() + static_cast<std::ptrdiff_t>(plan_[m.bucket].first));
  start_ready_buckets(m.group, u);
}

void rank_group::take(gradient_share_msg m) {
  if (!run_ || m.segment != run_->segment) return;
  auto& u = update_at(m.group);
  auto& mine = of(u, m.replica);
  mine.complete = true;
  mine.takes_part = std::any_of(m.gradients.begin(), m.gradients.end(), [](const tensor& t) { return bool(t); }) ||
                    (m.minibatches > 0 && m.gradients.empty());
  mine.gradients = std::move(m.gradients);
  start_ready_buckets(m.group, u);
  finish_when_complete(m.group);
}

// A bucket goes when every replica here has it, or has nothing for it.
void rank_group::start_ready_buckets(std::int64_t group, open_update& u) {
  for (std::size_t b = 0; b < plan_.size(); ++b) {
    if (u.begun_ns[b] != 0) continue;
    const auto has = [&](const contribution& c) { return c.complete || c.ready[b]; };
    if (std::all_of(u.replicas.begin(), u.replicas.end(), has)) start_bucket(group, u, b);
  }
}

std::vector<transport::part> rank_group::parts_of(const std::vector<tensor>& gradients, const tensor& count,
                                                  std::size_t bucket) const {
  std::vector<transport::part> parts;
  for (auto i = plan_[bucket].first; i < plan_[bucket].last; ++i)
    if (gradients[i]) parts.push_back({gradients[i].storage(), 0, gradients[i].bytes()});
  if (bucket + 1 == plan_.size()) parts.push_back({count.storage(), 0, count.bytes()});
  return parts;
}

// The sum goes where the first contribution of this rank lies; a rank that has none needs memory for it.
void rank_group::provide_result(open_update& u, const contribution* first, std::size_t bucket) {
  for (auto i = plan_[bucket].first; i < plan_[bucket].last; ++i) {
    u.result[i] = first != nullptr
                      ? first->gradients[i]
                      : tensor::allocate(unit_->update_memory(), dtype::f32, unit_->layers->parameters()[i].spec.dims,
                                         memory_use::gradients, unit_->formats[i]);
  }
}

void rank_group::start_bucket(std::int64_t group, open_update& u, std::size_t bucket) {
  u.begun_ns[bucket] = trace_recorder::now_ns();
  const contribution* first = nullptr;
  std::vector<std::vector<transport::part>> all;
  for (const auto& r : u.replicas) {
    if (r.takes_part && first == nullptr) first = &r;
    auto one = tensor::allocate(unit_->update_memory(), dtype::f32, {1}, memory_use::gradients);
    *one.data<float>() = 1;
    all.push_back(r.takes_part ? parts_of(r.gradients, one, bucket) : std::vector<transport::part>{});
  }
  provide_result(u, first, bucket);
  const auto address = caf::actor_cast<caf::actor>(self_);
  sums_->start(key_of(group, bucket), std::move(all), parts_of(u.result, u.count, bucket),
               [address, segment = run_->segment, group, bucket](std::exception_ptr failure) {
                 caf::anon_send(address, bucket_summed_msg{segment, group, bucket, failure});
               });
}

void rank_group::record(const open_update& u, std::int64_t group, std::size_t bucket) const {
  auto* trace = context_->services.trace;
  if (trace == nullptr) return;
  trace_record r;
  r.kind = span_kind::all_reduce;
  r.stage = static_cast<std::int16_t>(unit_->index);
  r.replica = static_cast<std::int16_t>(unit_->local.front());
  r.segment = static_cast<std::int32_t>(run_->segment);
  r.begin_ns = u.begun_ns[bucket];
  r.end_ns = trace_recorder::now_ns();
  r.minibatch = run_->first_minibatch + group * planner::minibatches_per_update(run_->plan, unit_->index);
  r.bytes = static_cast<std::int64_t>(plan_[bucket].bytes);
  trace->record(r);
}

void rank_group::summed(const bucket_summed_msg& m) {
  if (m.segment != run_->segment) return;
  if (m.failure) std::rethrow_exception(m.failure);
  const auto found = open_.find(m.group);
  check(found != open_.end(), "a bucket of an update that is not open");
  record(found->second, m.group, m.bucket);
  ++context_->progress;
  ++found->second.finished;
  finish_when_complete(m.group);
}

// All buckets may be summed before the replica's own update action comes: its backward has only just ended.
void rank_group::finish_when_complete(std::int64_t group) {
  const auto found = open_.find(group);
  auto& u = found->second;
  const auto is_complete = [](const contribution& c) { return c.complete; };
  if (u.finished < plan_.size() || !std::all_of(u.replicas.begin(), u.replicas.end(), is_complete)) return;
  gradient_sum_msg sum{group, static_cast<std::int64_t>(*u.count.data<float>()), std::move(u.result)};
  open_.erase(found);
  caf::anon_send(optimizer_, std::move(sum));
}

std::string rank_group::describe() const {
  if (open_.empty()) return who_ + " has no update under way";
  const auto& [group, u] = *open_.begin();
  const auto begun = std::count_if(u.begun_ns.begin(), u.begun_ns.end(), [](auto ns) { return ns != 0; });
  return who_ + " sums update " + std::to_string(group) + ": of " + std::to_string(plan_.size()) + " buckets " +
         std::to_string(begun) + " are begun here, " + std::to_string(u.finished) + " are summed";
}

caf::behavior rank_group_behavior(caf::stateful_actor<rank_group>* self, context_ptr context, int stage,
                                  caf::actor optimizer) {
  self->state.start(self, std::move(context), stage, std::move(optimizer));
  const auto run = [self](auto body) { guarded(self->state.context(), self->state.who(), body); };
  return {
      [=](const begin_segment_msg& m) { run([&] { self->state.begin(m); }); },
      [=](gradient_bucket_msg& m) { run([&] { self->state.take(std::move(m)); }); },
      [=](gradient_share_msg& m) { run([&] { self->state.take(std::move(m)); }); },
      [=](const describe_wait_msg&) {
        caf::anon_send(self->state.context().coordinator, wait_description_msg{self->state.describe()});
      },
      [=](const bucket_summed_msg& m) { run([&] { self->state.summed(m); }); },
  };
}

} // namespace

caf::actor spawn_rank_group(caf::actor_system& system, context_ptr context, int stage, caf::actor optimizer) {
  return system.spawn(rank_group_behavior, std::move(context), stage, std::move(optimizer));
}

} // namespace penstock::actors
