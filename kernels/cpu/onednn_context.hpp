// What the families of operations on one stream share: oneDNN's engine, layouts, changes between them, the scratchpad.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/cpu/bound_primitive.hpp"
#include "kernels/cpu/onednn_format.hpp"
#include "kernels/shape_key.hpp"

namespace penstock {

/// One per stream, made and used on its thread. Results are the same bits run after run for equal thread counts and
/// instruction sets, and the same with ReLU fused or apart.
class onednn_context {
public:
  /// `memory`: whose tensors these are.
  explicit onednn_context(backend& memory);

  const dnnl::engine& engine() const { return engine_; }
  /// Channels in a block of rank-4 activations: 16, 8, or 1 for plain.
  std::int64_t channel_block() const { return channel_block_; }
  double seconds_in_library() const { return seconds_in_library_; }

  tensor allocate(dtype type, shape dims, memory_use use, format_ptr format = nullptr) {
    return memory_.allocate(type, std::move(dims), use, std::move(format));
  }
  tensor allocate_zeroed(dtype type, shape dims, memory_use use) {
    return memory_.allocate_zeroed(type, std::move(dims), use);
  }
  tensor allocate_activation(shape dims) { return memory_.allocate_activation(std::move(dims)); }

  format_ptr activation_format(const shape& dims);
  /// The activation layout of these extents in oneDNN's words.
  dnnl::memory::desc activation_description(const shape& dims) {
    return description_of(activation_format(dims), dtype::f32, dims);
  }
  /// The same values in another format; no copy when x has it already.
  tensor reorder(const tensor& x, format_ptr format, memory_use use);
  void reorder_into(const tensor& x, const tensor& y);
  void reorder_rows(const tensor& plain, std::int64_t first, const tensor& target);
  /// Scratch where it must be copied.
  tensor in_format(const tensor& x, const format_ptr& format) { return reorder(x, format, memory_use::scratch); }
  tensor in_activation_format(const tensor& x) { return in_format(x, activation_format(x.dims())); }

  /// What every primitive is described with.
  static dnnl::primitive_attr user_scratchpad();
  static dnnl::primitive_attr with_relu(bool relu);
  /// c (rows x columns) = a b, or += a b, of packed matrices, either of which may be given transposed.
  struct product {
    std::int64_t rows, columns, depth;
    const float* a;
    bool a_transposed;
    const float* b;
    bool b_transposed;
    float* c;
    bool add;
  };
  void multiply(const product& p);
  void execute(bound_primitive& primitive, std::initializer_list<bound_primitive::operand> operands);

private:
  struct reorder_entry {
    bound_primitive run;
  };

  backend& memory_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::int64_t channel_block_;
  buffer scratchpad_; // one for all primitives, as large as the neediest so far
  double seconds_in_library_ = 0;
  shape_cache<const onednn_format> activation_formats_;
  shape_cache<reorder_entry> reorders_;
};

} // namespace penstock
