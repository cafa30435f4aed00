// The CPU's operations by oneDNN, with everything that depends on shapes made once and kept.
#pragma once

#include "kernels/cpu/onednn_context.hpp"
#include "kernels/host_backend.hpp"

namespace penstock {

/// One per stream, made and used on its thread.
class onednn_backend final : public host_backend {
public:
  explicit onednn_backend(penstock::device& owner);
  double seconds_in_library() const { return context_.seconds_in_library(); }

  format_ptr activation_format(const shape& dims) override { return context_.activation_format(dims); }
  tensor reorder(const tensor& x, format_ptr format, memory_use use) override;
  void reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) override;
  void fill(tensor& x, float value) override;

private:
  onednn_context context_;
};

} // namespace penstock
