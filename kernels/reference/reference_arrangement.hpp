// Moves of elements, in plain loops.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/arrangement_ops.hpp"

namespace penstock {

class reference_arrangement final : public arrangement_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_arrangement(backend& memory) : memory_(memory) {}

  tensor to_sequence(const tensor& images) override;
  tensor to_images(const tensor& sequence, const shape& images) override;
  tensor transpose(const tensor& x, std::size_t one, std::size_t other) override;
  tensor slice(const tensor& x, std::size_t axis, std::int64_t begin, std::int64_t end) override;
  tensor widen(const tensor& part, const shape& whole, std::size_t axis, std::int64_t begin) override;

private:
  backend& memory_;
};

} // namespace penstock
