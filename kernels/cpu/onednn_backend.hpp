// The CPU's operations by oneDNN, with everything that depends on shapes made once and kept.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/cpu/bound_primitive.hpp"
#include "kernels/cpu/onednn_format.hpp"
#include "kernels/device.hpp"
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/loss_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"

#include <unordered_map>

namespace penstock {

struct average_bins;

/// One per stream, made and used on its thread. Results are the same bits run after run for equal thread counts and
/// instruction sets, and the same with ReLU fused or apart.
class onednn_backend final : public backend,
                             public convolution_ops,
                             public elementwise_ops,
                             public linear_ops,
                             public loss_ops,
                             public normalisation_ops,
                             public optimizer_ops {
public:
  explicit onednn_backend(penstock::device& owner);
  ~onednn_backend() override;
  penstock::device& device() override { return owner_; }
  double seconds_in_library() const { return seconds_in_library_; }

  format_ptr activation_format(const shape& dims) override;
  tensor reorder(const tensor& x, format_ptr format, memory_use use) override;
  void reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) override;
  void fill(tensor& x, float value) override;
  void accumulate(tensor& into, const tensor& x) override;
  tensor add(tensor a, const tensor& b, bool relu) override;

  format_ptr conv2d_weight_format(const conv2d_args& args, const shape& x, const shape& weight) override;
  tensor conv2d_forward(const conv2d_args& args, const tensor& x, const tensor& weight, const tensor& bias,
                        bool relu) override;
  layer_gradients conv2d_backward(const conv2d_args& args, const tensor& x, const tensor& weight, bool has_bias,
                                  const tensor& y, bool relu, tensor dy, bool want_dx, bool want_dw) override;

  format_ptr linear_weight_format(const shape& x, const shape& weight) override;
  tensor linear_forward(const tensor& x, const tensor& weight, const tensor& bias, bool relu) override;
  layer_gradients linear_backward(const tensor& x, const tensor& weight, bool has_bias, const tensor& y, bool relu,
                                  tensor dy, bool want_dx, bool want_dw) override;

  batch_norm_result batch_norm2d_forward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                         const tensor& shift, bool relu) override;
  tensor batch_norm2d_inference(const batch_norm_args& args, const tensor& x, const tensor& scale, const tensor& shift,
                                const tensor& mean, const tensor& variance, bool relu) override;
  layer_gradients batch_norm2d_backward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                        const batch_norm_result& saved, bool relu, tensor dy, bool want_dx) override;

  tensor relu_forward(tensor x) override;
  tensor relu_backward(const tensor& y, tensor dy) override;

  pool_result pool2d_forward(const pool2d_args& args, const tensor& x, bool training) override;
  tensor pool2d_backward(const pool2d_args& args, const shape& x, const tensor& workspace, const tensor& dy) override;
  tensor adaptive_average_pool2d_forward(const tensor& x, std::array<std::int64_t, 2> output) override;
  tensor adaptive_average_pool2d_backward(const shape& x, const tensor& dy) override;

  tensor dropout(const random_key& key, float p, tensor x) override;
  tensor concat(std::span<const tensor> parts) override;
  std::vector<tensor> split(const tensor& x, std::span<const std::int64_t> channels) override;

  loss_result softmax_cross_entropy(const tensor& logits, const tensor& labels, float label_smoothing) override;
  tensor softmax_cross_entropy_backward(const tensor& probabilities, const tensor& labels, float label_smoothing,
                                        float scale) override;

  bool sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum,
                tensor& next) override;
  bool adamw_step(const adamw_args& args, const tensor& weight, const tensor& gradient, tensor& first_moment,
                  tensor& second_moment, tensor& next) override;
  double sum_of_squares(const tensor& x) override;

private:
  // -- what depends on shapes alone, by operation, extents and arguments --------

  enum class operation : std::int64_t {
    activation_format,
    reorder,
    conv_weight_format,
    conv_forward,
    conv_backward,
    linear_weight_format,
    linear_forward,
    linear_backward,
    norm_forward,
    norm_inference,
    norm_backward,
    max_pool_forward,
    max_pool_backward
  };
  struct cache_key {
    std::array<std::int64_t, 24> values{};
    std::size_t used = 0;
    void push(std::int64_t value) { values.at(used++) = value; }
    void push(const shape& dims) {
      for (const auto d : dims)
        push(d);
    }
    void push(const std::array<std::int64_t, 2>& pair) { push(pair[0]), push(pair[1]); }
    bool operator==(const cache_key&) const = default;
  };
  struct key_hash {
    std::size_t operator()(const cache_key& key) const;
  };
  template <class Entry>
  using cache = std::unordered_map<cache_key, std::shared_ptr<Entry>, key_hash>;

  template <class... Parts>
  static cache_key make_key(operation what, const Parts&... parts) {
    cache_key key;
    key.push(static_cast<std::int64_t>(what));
    const auto push = [&key](const auto& part) {
      if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
        key.push(static_cast<std::int64_t>(part));
      else
        key.push(part);
    };
    (push(parts), ...);
    return key;
  }
  template <class Entry, class Make>
  static const std::shared_ptr<Entry>& find_or_make(cache<Entry>& known, const cache_key& key, Make&& make) {
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    return known.emplace(key, make()).first->second;
  }

  struct reorder_entry;
  struct conv_forward_entry;
  struct conv_backward_entry;
  struct linear_forward_entry;
  struct linear_backward_entry;
  struct norm_entry;
  struct max_pool_entry;
  struct weight_format_entry {
    format_ptr format;
  };

  // -- shared steps -------------------------------------------------------------

  static dnnl::primitive_attr user_scratchpad();
  static dnnl::primitive_attr with_relu(bool relu);
  void execute(bound_primitive& primitive, std::initializer_list<bound_primitive::operand> operands);
  void reorder_into(const tensor& x, const tensor& y);
  tensor in_format(const tensor& x, const format_ptr& format); // scratch when it must be copied
  tensor in_activation_format(const tensor& x) { return in_format(x, activation_format(x.dims())); }
  std::shared_ptr<conv_forward_entry> make_conv_forward(const conv2d_args& args, const tensor& x, const tensor& weight,
                                                        bool has_bias, bool relu);
  std::shared_ptr<linear_backward_entry> make_linear_backward(const tensor& x, const tensor& weight, bool has_bias);
  void make_conv_backward_weights(conv_backward_entry& entry, const conv2d_args& args, const tensor& x,
                                  const tensor& weight, bool has_bias);
  void make_conv_backward_data(conv_backward_entry& entry, const conv2d_args& args, const tensor& x,
                               const tensor& weight);
  std::shared_ptr<max_pool_entry> make_max_pool(const pool2d_args& args, const shape& x, bool training);
  tensor average_pool_forward(const average_bins& bins, const tensor& x);
  tensor average_pool_backward(const average_bins& bins, const shape& x, const tensor& dy);
  bool has_whole_rows(const shape& whole, std::span<const std::int64_t> channels);

  penstock::device& owner_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::int64_t channel_block_; // of rank-4 activations: 16, 8, or 1 for plain
  buffer scratchpad_;          // one for all primitives, as large as the neediest so far
  double seconds_in_library_ = 0;
  std::vector<double> partial_sums_;

  cache<const onednn_format> activation_formats_;
  cache<weight_format_entry> weight_formats_;
  cache<reorder_entry> reorders_;
  cache<conv_forward_entry> conv_forwards_;
  cache<conv_backward_entry> conv_backwards_;
  cache<linear_forward_entry> linear_forwards_;
  cache<linear_backward_entry> linear_backwards_;
  cache<norm_entry> norms_;
  cache<max_pool_entry> max_pools_;
};

} // namespace penstock
