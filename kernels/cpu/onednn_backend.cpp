// The parts of the oneDNN backend that all its operations share.
#include "kernels/cpu/onednn_backend.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/little_memory.hpp"

#include <chrono>
#include <omp.h>

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

template <class Family>
std::shared_ptr<Family> unowned(Family& family) {
  return {std::shared_ptr<void>(), &family};
}

} // namespace

onednn_backend::onednn_backend(penstock::device& owner)
    : owner_(owner), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), channel_block_(widest_channel_block()) {
  offer(unowned<convolution_ops>(*this));
  offer(unowned<elementwise_ops>(*this));
  offer(unowned<linear_ops>(*this));
  offer(unowned<loss_ops>(*this));
  offer(unowned<normalisation_ops>(*this));
  offer(unowned<optimizer_ops>(*this));
}

onednn_backend::~onednn_backend() = default;

std::size_t onednn_backend::key_hash::operator()(const cache_key& key) const {
  std::uint64_t hash = key.used;
  for (std::size_t i = 0; i < key.used; ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(key.values[i])) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
  }
  return hash;
}

// Every primitive is described with it. oneDNN dies where its compilers of kernels get no memory, so they must not
// fail.
dnnl::primitive_attr onednn_backend::user_scratchpad() {
  require_address_space(0, "the compute library");
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::primitive_attr onednn_backend::with_relu(bool relu) {
  auto attributes = user_scratchpad();
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    attributes.set_post_ops(after);
  }
  return attributes;
}

void onednn_backend::execute(bound_primitive& primitive, std::initializer_list<bound_primitive::operand> operands) {
  if (primitive.scratchpad_bytes() > scratchpad_.size() || !scratchpad_) {
    scratchpad_ = buffer(); // before the larger one is taken
    scratchpad_ = owner_.memory().allocate(primitive.scratchpad_bytes(), memory_use::scratch);
  }
  require_address_space(0, "the compute library");
  const auto start = std::chrono::steady_clock::now();
  primitive.execute(stream_, scratchpad_.data(), operands);
  seconds_in_library_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::unique_ptr<backend> make_cpu_backend(device& owner) {
  return std::make_unique<onednn_backend>(owner);
}

void set_compute_threads(int threads) {
  require_threads(threads - 1, std::to_string(threads) + " compute threads");
  omp_set_num_threads(threads);
}

std::exception_ptr in_our_words(std::exception_ptr fault) {
  try {
    std::rethrow_exception(fault);
  } catch (const dnnl::error& e) {
    const std::string what = e.status == dnnl_out_of_memory ? "out of memory: oneDNN " : "[cpu] oneDNN: ";
    return std::make_exception_ptr(error(what + e.what()));
  } catch (...) {
    return fault;
  }
}

double seconds_in_library(const backend& ops) {
  const auto* known = dynamic_cast<const onednn_backend*>(&ops);
  return known == nullptr ? 0 : known->seconds_in_library();
}

} // namespace penstock
