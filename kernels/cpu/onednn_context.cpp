// What the families of operations on one stream share.
#include "kernels/cpu/onednn_context.hpp"

#include "kernels/device.hpp"
#include "kernels/little_memory.hpp"

#include <ctime>

namespace penstock {

namespace {

std::int64_t widest_channel_block() {
  const auto isa = dnnl::get_effective_cpu_isa();
  using dnnl::cpu_isa;
  if (isa == cpu_isa::avx512_core || isa == cpu_isa::avx512_core_vnni || isa == cpu_isa::avx512_core_bf16 ||
      isa == cpu_isa::avx512_core_amx)
    return 16;
  return isa == cpu_isa::avx2 || isa == cpu_isa::avx2_vnni ? 8 : 1;
}

// Not the clock on the wall, which goes on while others have the processor.
double thread_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

} // namespace

onednn_context::onednn_context(backend& memory)
    : memory_(memory), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), channel_block_(widest_channel_block()) {}

// Every primitive is described with it. oneDNN dies where its compilers of kernels get no memory, so they must not
// fail.
dnnl::primitive_attr onednn_context::user_scratchpad() {
  require_address_space(0, "the compute library");
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::primitive_attr onednn_context::with_relu(bool relu) {
  auto attributes = user_scratchpad();
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    attributes.set_post_ops(after);
  }
  return attributes;
}

void onednn_context::multiply(const product& p) {
  require_address_space(0, "the compute library");
  const double start = thread_seconds();
  const auto status = dnnl::sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.rows, p.columns, p.depth,
                                  1.0F, p.a, p.a_transposed ? p.rows : p.depth, p.b,
                                  p.b_transposed ? p.depth : p.columns, p.add ? 1.0F : 0.0F, p.c, p.columns);
  dnnl::error::wrap_c_api(static_cast<dnnl_status_t>(status), "could not multiply matrices");
  seconds_in_library_ += thread_seconds() - start;
}

void onednn_context::execute(bound_primitive& primitive, std::initializer_list<bound_primitive::operand> operands) {
  if (primitive.scratchpad_bytes() > scratchpad_.size() || !scratchpad_) {
    scratchpad_ = buffer(); // before the larger one is taken
    scratchpad_ = memory_.device().memory().allocate(primitive.scratchpad_bytes(), memory_use::scratch);
  }
  require_address_space(0, "the compute library");
  const double start = thread_seconds();
  primitive.execute(stream_, scratchpad_.data(), operands);
  seconds_in_library_ += thread_seconds() - start;
}

} // namespace penstock
