// What posted work sees of a delayed device: each operation is asked for, and returns a tensor that has no values yet.
#pragma once

#include "kernels/backend.hpp"
#include "tests/support/delayed/delayed_device.hpp"
#include "tests/support/delayed/posted_work.hpp"

#include <functional>

namespace penstock::testing {

class delayed_memory;
class device_queue;

/// The families are in files of their own (delayed_families.hpp); all come to `ask`.
class delayed_backend final : public backend {
public:
  delayed_backend(penstock::device& owner, delayed_memory& memory, device_queue& queue, const delayed_options& options);
  ~delayed_backend() override;
  penstock::device& device() override { return owner_; }

  format_ptr activation_format(const shape& dims) override;
  tensor reorder(const tensor& x, format_ptr format, memory_use use) override;
  void reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) override;
  void fill(tensor& x, float value) override;

  tensor copy(const tensor& x, memory_use use) override;
  tensor from_host(const tensor& x, memory_use use) override;
  tensor to_host(const tensor& x, allocator& host) override;
  void on_host(std::vector<tensor> operands, std::vector<tensor> results, host_computation compute) override;
  std::vector<tensor> fetch(std::vector<tensor> scalars) override;

  event_ptr record() override;
  void wait_for(const event_ptr& reached) override;
  void when_reached(std::function<void()> call) override;

  // -- for the families -----------------------------------------------------------

  /// Computes with plain loops on the operands' bytes, in memory of their own; what it returns is copied into the
  /// results, one for one. It may also write into operands. It copies an operand's handle to pass it by value: then
  /// nothing is overwritten that is not a result.
  using computation = std::function<std::vector<tensor>(backend& loops, std::vector<tensor>& operands)>;
  /// Operands may be none; results are tensors of this device, or none where the computation gives none.
  void ask(const std::vector<tensor>& operands, const std::vector<tensor>& results, computation compute);
  /// Memory for a result; `x` itself where nobody else has it.
  tensor in_place_of(const tensor& x);

  // -- for the stream -------------------------------------------------------------

  /// Between these, operations may be asked for. What begin() gives is complete when the device gets to what is put
  /// into the queue next.
  std::shared_ptr<posted_work> begin();
  void end() { now_ = nullptr; }

private:
  void keep_until_complete(const tensor& x);
  void put_in_order(std::function<void()> piece, bool even_after_a_failure = false);
  posted_work& now();

  penstock::device& owner_;
  delayed_memory& memory_;
  device_queue& queue_;
  bool keeps_what_it_reads_;
  struct plain_loops;
  std::shared_ptr<plain_loops> loops_; // used by the device's thread
  std::shared_ptr<posted_work> now_;
};

} // namespace penstock::testing
