// Tensor handles: construction and checks.
#include "kernels/tensor.hpp"

#include "kernels/check.hpp"

namespace penstock {

bool same_format(const format_ptr& a, const format_ptr& b) {
  if (a == b) return true;
  return a != nullptr && b != nullptr && a->equals(*b);
}

std::size_t stored_bytes(dtype type, const shape& dims, const format_ptr& format) {
  return format ? format->bytes() : static_cast<std::size_t>(element_count(dims)) * size_of(type);
}

tensor::tensor(dtype type, shape dims, buffer storage, format_ptr format)
    : type_(type), dims_(std::move(dims)), storage_(std::move(storage)), format_(std::move(format)) {
  check(storage_.size() >= bytes(), "buffer is smaller than its tensor");
}

tensor tensor::allocate(allocator& memory, dtype type, shape dims, memory_use use, format_ptr format) {
  const auto size = stored_bytes(type, dims, format);
  return tensor(type, std::move(dims), memory.allocate(size, use), std::move(format));
}

std::size_t tensor::bytes() const {
  return stored_bytes(type_, dims_, format_);
}

namespace {

template <class T>
constexpr bool stores(dtype type) {
  if constexpr (std::is_same_v<T, float>)
    return type == dtype::f32;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return type == dtype::bf16;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return type == dtype::i64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return type == dtype::i32;
  else if constexpr (std::is_same_v<T, double>)
    return type == dtype::f64;
  else
    return type == dtype::u8;
}

} // namespace

template <class T>
T* tensor::data() const {
  check(stores<T>(type_), "tensor read as another element type");
  check(is_on_host(), "the memory of a device read by the host");
  return reinterpret_cast<T*>(storage_.data());
}

template float* tensor::data<float>() const;
template std::uint16_t* tensor::data<std::uint16_t>() const;
template std::int64_t* tensor::data<std::int64_t>() const;
template std::int32_t* tensor::data<std::int32_t>() const;
template std::uint8_t* tensor::data<std::uint8_t>() const;
template double* tensor::data<double>() const;

tensor tensor::reshaped(shape dims) const {
  check(is_plain(), "only plain tensors can be reshaped");
  check(element_count(dims) == elements(), "reshaped to another number of elements");
  return tensor(type_, std::move(dims), storage_);
}

} // namespace penstock
