// What computes on one stream of one device: memory and formats here, all else in families of operations (ops/). One
// implementation per library: oneDNN (cpu/), plain loops (reference/), cuDNN and cuBLASLt (cuda/).
#pragma once

#include "kernels/event.hpp"
#include "kernels/tensor.hpp"

#include <functional>
#include <span>
#include <string_view>
#include <typeindex>
#include <vector>

namespace penstock {

class device;

/// Called only from work posted to its stream. An operation may have been asked for, not done, when it returns: results
/// are there in the stream's order, for the host when the work is complete. What a work reads of another device's
/// memory stays alive until then. Primitives are cached by shape, so the first call with a shape is slower. Activations
/// are f32: rank 4 in the device's one fixed layout (`activation_format`), other ranks plain.
///
/// What layers, losses and optimizers compute comes in families, each an interface of its own in kernels/ops/:
/// `ops.get<convolution_ops>().conv2d_forward(...)`. A device need not have all of them, and a new one is a new header
/// there: a class with a virtual destructor and a name, `static constexpr std::string_view family`.
class backend {
public:
  virtual ~backend() = default;
  virtual penstock::device& device() = 0;

  // -- families of operations ---------------------------------------------------

  /// Throws penstock::error when the device has not got it ("[device] cpu:0 has no convolution and pooling").
  template <class Family>
  Family& get() {
    if (void* found = find(typeid(Family))) return *static_cast<Family*>(found);
    throw_missing(Family::family);
  }
  template <class Family>
  bool has() const {
    return find(typeid(Family)) != nullptr;
  }

  // -- memory and formats -------------------------------------------------------

  /// The one layout that rank-4 activations of this shape have on this device; null for plain. Depends on C alone.
  virtual format_ptr activation_format(const shape& dims) = 0;
  /// Uninitialised, in the activation layout.
  tensor allocate_activation(shape dims);
  /// Uninitialised, any format.
  tensor allocate(dtype type, shape dims, memory_use use, format_ptr format = nullptr);
  /// All bytes zero, padding included.
  tensor allocate_zeroed(dtype type, shape dims, memory_use use, format_ptr format = nullptr);
  /// The same values in another format; no copy when it has it already.
  virtual tensor reorder(const tensor& x, format_ptr format, memory_use use) = 0;
  tensor to_plain(const tensor& x, memory_use use = memory_use::scratch) { return reorder(x, nullptr, use); }
  /// Puts the rows of `plain` (along axis 0) in the place of as many rows of `target`, whatever its format, from row
  /// `first` on. Both have the same number of axes. Rows go in whole blocks of row_block, counted from row 0; the last
  /// block may be shorter.
  virtual void reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) = 0;
  static constexpr std::int64_t row_block = 64;
  virtual void fill(tensor& x, float value) = 0; // f32; padding stays zero when value is 0

  // -- the host ---------------------------------------------------------------

  /// The same values and format in new memory of this device, of a tensor of any device of its kind.
  virtual tensor copy(const tensor& x, memory_use use) = 0;
  /// A tensor of the host's memory in this device's, which takes it as it is where it reads that memory; one that is in
  /// a device's already is returned. The host may not write into it any more.
  virtual tensor from_host(const tensor& x, memory_use use) = 0;
  /// A plain copy in the host's memory. Its bytes are there when the work that asked for it is complete.
  virtual tensor to_host(const tensor& x, allocator& host) = 0;
  /// A computation by the host's own loops in the stream's order, for layers that need none of the device's operations:
  /// `compute` gets tensors of the operands' and the results' types, shapes and formats whose bytes the host may read,
  /// and fills the results. It runs later, on some thread, and owns what it needs. Operands are none or of this device.
  using host_computation = std::function<void(std::span<const tensor> operands, std::span<const tensor> results)>;
  virtual void on_host(std::vector<tensor> operands, std::vector<tensor> results, host_computation compute) = 0;
  /// Small plain tensors that decide something (losses, flags, sums), all together, in the host's memory when the work
  /// that asked is complete. At most once in a piece of posted work: each is a synchronisation.
  virtual std::vector<tensor> fetch(std::vector<tensor> scalars) = 0;

  // -- time ---------------------------------------------------------------------

  /// The point that the stream's order of work has come to.
  virtual event_ptr record() = 0;
  /// What follows on this stream runs when that point of another stream is reached; the host does not wait.
  virtual void wait_for(const event_ptr& reached) = 0;
  /// Calls when the device gets here, on some thread; it must not throw.
  virtual void when_reached(std::function<void()> call) = 0;

protected:
  /// Gives the device a family; a later one of the same kind takes the place of the earlier. Called by constructors.
  template <class Family>
  void offer(std::shared_ptr<Family> operations) {
    put(typeid(Family), std::shared_ptr<void>(std::move(operations)));
  }

private:
  void* find(const std::type_info& family) const; // null: none
  void put(const std::type_info& family, std::shared_ptr<void> operations);
  [[noreturn]] void throw_missing(std::string_view family);

  std::vector<std::pair<std::type_index, std::shared_ptr<void>>> families_; // few: looked through in order
};

} // namespace penstock
