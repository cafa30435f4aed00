// Tensors to parts of messages, and back to the optimizer when they are summed.
#include "actors/ranks/rank_sums.hpp"

#include "actors/ranks/channels.hpp"
#include "actors/ranks/job.hpp"
#include "kernels/check.hpp"

namespace penstock::actors {

namespace {

void add_floats(std::byte* onto, const std::byte* from, std::size_t bytes) {
  auto* sum = reinterpret_cast<float*>(onto);
  const auto* term = reinterpret_cast<const float*>(from);
  const auto count = bytes / sizeof(float);
  for (std::size_t i = 0; i < count; ++i)
    sum[i] += term[i];
}

} // namespace

/// One bucket on its way.
struct rank_sums::running {
  std::shared_ptr<reduced_msg> sum = std::make_shared<reduced_msg>();
  tensor count; // one float: the members that take part
  std::int64_t begun_ns = trace_recorder::now_ns();
};

rank_sums::rank_sums(const context_ptr& context, int stage, bucket_cuts plan)
    : context_(context), unit_(&context->services.built.stages.at(static_cast<std::size_t>(stage))),
      plan_(std::move(plan)),
      sums_(context->services.inputs.ranks->data,
            transport::group{context->services.built.where.rank_of[static_cast<std::size_t>(stage)]},
            in_epoch(all_reduce_channel(stage), context->services.plan_epoch), add_floats, sizeof(float)) {}

void rank_sums::forget_before(std::int64_t stretch) {
  sums_.forget_below(key_of(stretch, 0, 0));
}

std::uint64_t rank_sums::key_of(std::int64_t stretch, std::int64_t group, std::size_t bucket) {
  constexpr int bucket_bits = 12;
  constexpr int group_bits = 30;
  check(bucket < (1U << bucket_bits) && group < (std::int64_t{1} << group_bits), "more buckets than keys");
  return (static_cast<std::uint64_t>(stretch) << (group_bits + bucket_bits)) |
         (static_cast<std::uint64_t>(group) << bucket_bits) | bucket;
}

tensor rank_sums::one_float(float value) const {
  auto t = tensor::allocate(host_memory(), dtype::f32, {1}, memory_use::gradients);
  *t.data<float>() = value;
  return t;
}

std::vector<transport::part> rank_sums::parts_of(const std::vector<tensor>& gradients, const tensor* count) const {
  std::vector<transport::part> parts;
  for (const auto& g : gradients)
    if (g) parts.push_back({g.storage(), 0, g.bytes()});
  if (count != nullptr) parts.push_back({count->storage(), 0, count->bytes()});
  return parts;
}

allocator& rank_sums::host_memory() const {
  auto* shared = unit_->first_local().memory->host_memory();
  return shared != nullptr ? *shared : *staging_;
}

// What the host cannot read is copied first, on the update's stream; an update takes the sum back to its device.
void rank_sums::start(const reduce_bucket& what, const completion& done) {
  if (unit_->first_local().memory->host_memory() != nullptr) return start_on_host(what, done);
  auto staged = std::make_shared<reduce_bucket>(what);
  unit_->update_stream().post(
      [staged, memory = staging_](backend& ops) {
        for (auto& of_one : staged->gradients)
          if (of_one)
            for (auto& g : *of_one)
              if (g) g = ops.to_host(g, *memory);
      },
      [maybe = weak_from_this(), staged, done](std::exception_ptr failure) {
        if (failure) return done(nullptr, 0, std::move(failure));
        if (const auto self = maybe.lock()) self->start_on_host(*staged, done); // else the run has ended
      });
}

// The sum goes where the first contribution of this rank lies; a rank that has none needs memory for it.
void rank_sums::start_on_host(const reduce_bucket& what, const completion& done) {
  auto state = std::make_shared<running>();
  *state->sum = {what.stretch, what.group, what.bucket, 0, {}};
  std::vector<std::vector<transport::part>> all;
  const std::vector<tensor>* first = nullptr;
  for (const auto& of_one : what.gradients) {
    if (of_one && first == nullptr) first = &*of_one;
    if (!of_one) {
      all.emplace_back();
      continue;
    }
    const auto one = what.counts ? one_float(1) : tensor();
    all.push_back(parts_of(*of_one, what.counts ? &one : nullptr));
  }
  if (first != nullptr)
    state->sum->gradients = *first;
  else
    for (auto i = plan_[what.bucket].first; i < plan_[what.bucket].last; ++i)
      state->sum->gradients.push_back(tensor::allocate(host_memory(), dtype::f32,
                                                       unit_->layers->parameters()[i].spec.dims, memory_use::gradients,
                                                       unit_->formats[i]));
  if (what.counts) state->count = one_float(0);
  auto result = parts_of(state->sum->gradients, what.counts ? &state->count : nullptr);
  sums_.start(key_of(what.stretch, what.group, what.bucket), std::move(all), std::move(result),
              [state, done](std::exception_ptr failure) {
                if (state->count) state->sum->members = static_cast<std::int64_t>(*state->count.data<float>());
                done(state->sum, state->begun_ns, std::move(failure));
              });
}

} // namespace penstock::actors
