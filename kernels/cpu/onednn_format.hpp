// A tensor's arrangement in memory as oneDNN describes it.
#pragma once

#include "kernels/tensor.hpp"

#include <oneapi/dnnl/dnnl.hpp>

namespace penstock {

/// Wraps a blocked memory descriptor. Never describes a plain row-major arrangement: that is a null format_ptr.
class onednn_format final : public tensor_format {
public:
  explicit onednn_format(dnnl::memory::desc description);
  std::size_t bytes() const override { return description_.get_size(); }
  bool equals(const tensor_format& other) const override;
  std::string name() const override;

  const dnnl::memory::desc& description() const { return description_; }
  /// Of everything that equals() compares.
  std::uint64_t hash() const { return hash_; }

private:
  dnnl::memory::desc description_;
  std::uint64_t hash_;
};

/// Row-major and packed, of any rank from 1.
dnnl::memory::desc plain_description(dtype type, const shape& dims);

/// Null when the descriptor is the plain arrangement of its dimensions.
format_ptr format_of(const dnnl::memory::desc& description);

/// How the bytes of `x` are arranged.
dnnl::memory::desc description_of(const tensor& x);
dnnl::memory::desc description_of(const format_ptr& format, dtype type, const shape& dims);

/// 0 for plain.
std::uint64_t hash_of(const format_ptr& format);

} // namespace penstock
