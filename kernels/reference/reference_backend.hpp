// The truth for every backend: each operation in plain loops over plain tensors, simple enough to be believed at sight.
#pragma once

#include "kernels/host_backend.hpp"

namespace penstock {

/// Single-threaded; sums are formed in double. Every tensor is plain. The families are classes of their own
/// (reference_NAME.hpp), which any backend whose memory the host reads may offer.
class reference_backend final : public host_backend {
public:
  explicit reference_backend(penstock::device& device);

  format_ptr activation_format(const shape& dims) override;
  tensor reorder(const tensor& x, format_ptr format, memory_use use) override;
  void reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) override;
  void fill(tensor& x, float value) override;
};

std::unique_ptr<backend> make_reference_backend(device& device);

} // namespace penstock
