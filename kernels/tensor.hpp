// Typed extents over a shared buffer. A tensor is a cheap handle; copies share the bytes.
#pragma once

#include "kernels/dtype.hpp"
#include "kernels/memory_pool.hpp"
#include "kernels/shape.hpp"

#include <atomic>
#include <memory>
#include <string>

namespace penstock {

/// A backend's own arrangement of a tensor's elements in memory (a blocked layout, say). Elements may be padded with
/// zeros, and element-wise work over all stored elements keeps the padding zero. Immutable, shared by tensors.
class tensor_format {
public:
  virtual ~tensor_format() = default;
  virtual std::size_t bytes() const = 0;
  virtual bool equals(const tensor_format& other) const = 0;
  virtual std::string name() const = 0;
};
using format_ptr = std::shared_ptr<const tensor_format>; ///< null: plain, row-major, packed

bool same_format(const format_ptr& a, const format_ptr& b);

/// Bytes of a tensor in that format, padding included.
std::size_t stored_bytes(dtype type, const shape& dims, const format_ptr& format);

/// Shape, element type and format over a buffer. A default-constructed tensor is "none" (no gradient, no bias).
class tensor {
public:
  tensor() = default;
  /// Wraps a buffer that holds at least the bytes of the format, or of the plain tensor.
  tensor(dtype type, shape dims, buffer storage, format_ptr format = nullptr);

  /// Uninitialised, in that memory.
  static tensor allocate(allocator& memory, dtype type, shape dims, memory_use use, format_ptr format = nullptr);

  explicit operator bool() const { return static_cast<bool>(storage_); }
  dtype type() const { return type_; }
  const shape& dims() const { return dims_; }
  std::int64_t dim(std::size_t i) const { return dims_.at(i); }
  std::size_t rank() const { return dims_.size(); }
  std::int64_t elements() const { return element_count(dims_); }

  const format_ptr& format() const { return format_; }
  bool is_plain() const { return format_ == nullptr; }
  std::size_t bytes() const; ///< as stored, padding included
  std::int64_t stored_elements() const { return static_cast<std::int64_t>(bytes() / size_of(type_)); }

  /// True when the host may read the bytes: always, where the device shares the host's memory.
  bool is_on_host() const { return storage_.is_on_host(); }
  /// First stored element, whatever the format. Throws std::logic_error when T is not the element type, and for memory
  /// that the host cannot read.
  template <class T>
  T* data() const;
  std::byte* raw() const { return storage_.data(); }
  const buffer& storage() const { return storage_; }

  /// True when no other handle shares the bytes, so that they may be overwritten.
  bool is_unique() const {
    if (storage_.use_count() != 1) return false;
    std::atomic_thread_fence(std::memory_order_acquire); // what other threads read before they let go is behind us
    return true;
  }

  /// The same plain bytes under another shape of as many elements.
  tensor reshaped(shape dims) const;

private:
  dtype type_ = dtype::f32;
  shape dims_;
  buffer storage_;
  format_ptr format_;
};

extern template float* tensor::data<float>() const;
extern template std::uint16_t* tensor::data<std::uint16_t>() const;
extern template std::int64_t* tensor::data<std::int64_t>() const;
extern template std::int32_t* tensor::data<std::int32_t>() const;
extern template std::uint8_t* tensor::data<std::uint8_t>() const;
extern template double* tensor::data<double>() const;

} // namespace penstock
