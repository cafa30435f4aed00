// Which oneDNN computes, and with which instructions.
#include "kernels/device.hpp"

#include <oneapi/dnnl/dnnl.hpp>

namespace penstock {

namespace {

std::string isa_name(dnnl::cpu_isa isa) {
  switch (isa) {
  case dnnl::cpu_isa::sse41:
    return "sse41";
  case dnnl::cpu_isa::avx:
    return "avx";
  case dnnl::cpu_isa::avx2:
    return "avx2";
  case dnnl::cpu_isa::avx2_vnni:
    return "avx2_vnni";
  case dnnl::cpu_isa::avx512_core:
    return "avx512_core";
  case dnnl::cpu_isa::avx512_core_vnni:
    return "avx512_core_vnni";
  case dnnl::cpu_isa::avx512_core_bf16:
    return "avx512_core_bf16";
  case dnnl::cpu_isa::avx512_core_amx:
    return "avx512_core_amx";
  default:
    return "isa " + std::to_string(static_cast<unsigned>(isa));
  }
}

} // namespace

compute_library_info compute_library() {
  const auto* v = dnnl::version();
  return {"oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch),
          isa_name(dnnl::get_effective_cpu_isa())};
}

} // namespace penstock
