// The oneDNN backend: which families it has, and its own part, memory and formats.
#include "kernels/cpu/onednn_backend.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/onednn_activation.hpp"
#include "kernels/cpu/onednn_arrangement.hpp"
#include "kernels/cpu/onednn_attention.hpp"
#include "kernels/cpu/onednn_convolution.hpp"
#include "kernels/cpu/onednn_elementwise.hpp"
#include "kernels/cpu/onednn_embedding.hpp"
#include "kernels/cpu/onednn_linear.hpp"
#include "kernels/cpu/onednn_loss.hpp"
#include "kernels/cpu/onednn_normalisation.hpp"
#include "kernels/cpu/onednn_optimizer.hpp"
#include "kernels/cpu/onednn_recurrent.hpp"
#include "kernels/cpu/vector_loop.hpp"
#include "kernels/little_memory.hpp"

#include <omp.h>

namespace penstock {

onednn_backend::onednn_backend(penstock::device& owner) : host_backend(owner), context_(*this) {
  offer<activation_ops>(std::make_shared<onednn_activation>(context_));
  offer<arrangement_ops>(std::make_shared<onednn_arrangement>(context_));
  offer<attention_ops>(std::make_shared<onednn_attention>(context_));
  offer<convolution_ops>(std::make_shared<onednn_convolution>(context_));
  offer<elementwise_ops>(std::make_shared<onednn_elementwise>(context_));
  offer<embedding_ops>(std::make_shared<onednn_embedding>(context_));
  offer<linear_ops>(std::make_shared<onednn_linear>(context_));
  offer<loss_ops>(std::make_shared<onednn_loss>(context_));
  offer<normalisation_ops>(std::make_shared<onednn_normalisation>(context_));
  offer<optimizer_ops>(std::make_shared<onednn_optimizer>());
  offer<recurrent_ops>(std::make_shared<onednn_recurrent>(context_));
}

tensor onednn_backend::reorder(const tensor& x, format_ptr format, memory_use use) {
  return context_.reorder(x, std::move(format), use);
}

void onednn_backend::reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) {
  context_.reorder_rows(plain, first, target);
}

void onednn_backend::fill(tensor& x, float value) {
  if (value != 0.0F && !x.is_plain()) {
    // Only the elements, not the padding.
    tensor plain = allocate(dtype::f32, x.dims(), memory_use::scratch);
    fill(plain, value);
    return context_.reorder_into(plain, x);
  }
  float* out = x.data<float>();
  element_loop(x.stored_elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t i = begin; i < end; ++i)
      out[i] = value;
  });
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
