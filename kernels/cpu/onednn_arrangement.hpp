// Moves of elements, copied by all threads.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/ops/arrangement_ops.hpp"

namespace penstock {

class onednn_arrangement final : public arrangement_ops {
public:
  explicit onednn_arrangement(onednn_context& context) : context_(context) {}

  tensor to_sequence(const tensor& images) override;
  tensor to_images(const tensor& sequence, const shape& images) override;
  tensor transpose(const tensor& x, std::size_t one, std::size_t other) override;
  tensor slice(const tensor& x, std::size_t axis, std::int64_t begin, std::int64_t end) override;
  tensor widen(const tensor& part, const shape& whole, std::size_t axis, std::int64_t begin) override;

private:
  onednn_context& context_;
};

} // namespace penstock
