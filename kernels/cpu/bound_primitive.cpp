// A oneDNN primitive together with the memory objects it is executed on.
#include "kernels/cpu/bound_primitive.hpp"

#include "kernels/check.hpp"

namespace penstock {

bound_primitive::bound_primitive(const dnnl::primitive_desc_base& pd, dnnl::primitive primitive,
                                 std::initializer_list<argument> arguments)
    : primitive_(std::move(primitive)) {
  const auto engine = pd.get_engine();
  const auto scratchpad = pd.scratchpad_desc();
  scratchpad_bytes_ = scratchpad.get_size();
  const auto add = [&](int id, const dnnl::memory::desc& description) {
    memories_.emplace_back(description, engine, nullptr);
    arguments_.push_back({id, memories_.back().get()});
  };
  memories_.reserve(arguments.size() + 1);
  for (const auto& a : arguments)
    add(a.id, a.description);
  add(DNNL_ARG_SCRATCHPAD, scratchpad);
}

void bound_primitive::execute(const dnnl::stream& stream, void* scratchpad, std::initializer_list<operand> operands) {
  check(operands.size() + 1 == arguments_.size(), "a primitive was given other operands than it was made for");
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    const void* bytes = scratchpad;
    for (const auto& o : operands)
      if (o.id == arguments_[i].arg) bytes = o.bytes;
    // oneDNN's interface is not const-correct for inputs.
    memories_[i].set_data_handle(const_cast<void*>(bytes), stream);
  }
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data()),
      "oneDNN could not execute a primitive");
}

} // namespace penstock
