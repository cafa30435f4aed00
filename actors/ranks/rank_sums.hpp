// The all-reduce of a stage whose replicas are on several ranks, one bucket at a time.
#pragma once

#include "actors/optimizer/gradient_reducer.hpp"
#include "actors/run/actor_context.hpp"
#include "transport/collectives.hpp"

#include <memory>

namespace penstock::actors {

/// Of one stage on this rank. Used by one thread at a time; what it starts is completed on the transport's threads.
class rank_sums : public std::enable_shared_from_this<rank_sums> {
public:
  /// `begun_ns`: when the sum was started, as trace_recorder::now_ns.
  using completion = std::function<void(std::shared_ptr<reduced_msg>, std::int64_t begun_ns, std::exception_ptr)>;

  /// `plan`: the buckets of the stage.
  rank_sums(const context_ptr& context, int stage, bucket_cuts plan);
  void start(const reduce_bucket& what, const completion& done);
  /// What earlier stretches left is dropped.
  void forget_before(std::int64_t stretch);

private:
  struct running;
  void start_on_host(const reduce_bucket& what, const completion& done);
  allocator& host_memory() const;
  std::vector<transport::part> parts_of(const std::vector<tensor>& gradients, const tensor* count) const;
  tensor one_float(float value) const;
  static std::uint64_t key_of(std::int64_t stretch, std::int64_t group, std::size_t bucket);

  context_ptr context_;
  stage_unit* unit_;
  bucket_cuts plan_;
  std::shared_ptr<memory_pool> staging_ = std::make_shared<memory_pool>(); // where the device's memory is its own
  transport::all_reduce sums_;
};

} // namespace penstock::actors
