// The layout of a tensor that came from another process.
#pragma once

#include "kernels/tensor.hpp"

namespace penstock::actors {

/// A layout that another process named. Only adopt_layouts and placed make it usable for computing.
class wire_format final : public tensor_format {
public:
  wire_format(std::size_t bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}
  std::size_t bytes() const override { return bytes_; }
  bool equals(const tensor_format& other) const override { return other.bytes() == bytes_ && other.name() == name_; }
  std::string name() const override { return name_; }

private:
  std::size_t bytes_;
  std::string name_;
};

} // namespace penstock::actors
