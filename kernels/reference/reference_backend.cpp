// The backend of plain loops: which families it has, and its own part, memory and formats.
#include "kernels/reference/reference_backend.hpp"

#include "kernels/check.hpp"
#include "kernels/reference/reference_activation.hpp"
#include "kernels/reference/reference_arrangement.hpp"
#include "kernels/reference/reference_attention.hpp"
#include "kernels/reference/reference_convolution.hpp"
#include "kernels/reference/reference_elementwise.hpp"
#include "kernels/reference/reference_embedding.hpp"
#include "kernels/reference/reference_linear.hpp"
#include "kernels/reference/reference_loss.hpp"
#include "kernels/reference/reference_normalisation.hpp"
#include "kernels/reference/reference_optimizer.hpp"
#include "kernels/reference/reference_recurrent.hpp"

#include <algorithm>

namespace penstock {

reference_backend::reference_backend(penstock::device& device) : host_backend(device) {
  offer<activation_ops>(std::make_shared<reference_activation>(*this));
  offer<arrangement_ops>(std::make_shared<reference_arrangement>(*this));
  offer<attention_ops>(std::make_shared<reference_attention>(*this));
  offer<convolution_ops>(std::make_shared<reference_convolution>(*this));
  offer<elementwise_ops>(std::make_shared<reference_elementwise>(*this));
  offer<embedding_ops>(std::make_shared<reference_embedding>(*this));
  offer<linear_ops>(std::make_shared<reference_linear>(*this));
  offer<loss_ops>(std::make_shared<reference_loss>(*this));
  offer<normalisation_ops>(std::make_shared<reference_normalisation>(*this));
  offer<optimizer_ops>(std::make_shared<reference_optimizer>());
  offer<recurrent_ops>(std::make_shared<reference_recurrent>(*this));
}

std::unique_ptr<backend> make_reference_backend(device& device) {
  return std::make_unique<reference_backend>(device);
}

format_ptr reference_backend::activation_format(const shape&) {
  return nullptr;
}

tensor reference_backend::reorder(const tensor& x, format_ptr format, memory_use) {
  check(x.is_plain() && format == nullptr, "the reference backend knows the plain format only");
  return x;
}

void reference_backend::reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) {
  check(plain.is_plain() && target.is_plain(), "the reference backend knows the plain format only");
  std::copy_n(plain.data<float>(), plain.elements(),
              target.data<float>() + first * (target.elements() / target.dim(0)));
}

void reference_backend::fill(tensor& x, float value) {
  std::fill_n(x.data<float>(), x.elements(), value);
}

} // namespace penstock
