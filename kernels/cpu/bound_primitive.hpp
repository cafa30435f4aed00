// A oneDNN primitive together with the memory objects it is executed on.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace penstock {

/// Made once for a shape and executed many times on other bytes, so that nothing is described or allocated in between.
class bound_primitive {
public:
  struct argument {
    int id; // DNNL_ARG_...
    dnnl::memory::desc description;
  };
  struct operand {
    int id;
    const void* bytes;
  };

  bound_primitive() = default;
  /// `pd` must have been made with a user scratchpad.
  bound_primitive(const dnnl::primitive_desc_base& pd, dnnl::primitive primitive,
                  std::initializer_list<argument> arguments);

  std::size_t scratchpad_bytes() const { return scratchpad_bytes_; }
  /// Executes and waits. `operands` must name every argument; `scratchpad` may be null when none is needed.
  void execute(const dnnl::stream& stream, void* scratchpad, std::initializer_list<operand> operands);

private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_; // owns what arguments_ points to
  std::vector<dnnl_exec_arg_t> arguments_;
  std::size_t scratchpad_bytes_ = 0;
};

} // namespace penstock
