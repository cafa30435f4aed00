// The families of operations of a delayed device: shapes of results now, values later.
#pragma once

#include "kernels/ops/activation_ops.hpp"
#include "kernels/ops/arrangement_ops.hpp"
#include "kernels/ops/attention_ops.hpp"
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/embedding_ops.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/loss_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"
#include "kernels/ops/recurrent_ops.hpp"
#include "tests/support/delayed/delayed_backend.hpp"

namespace penstock::testing {

std::shared_ptr<activation_ops> delayed_activation(delayed_backend& device);
std::shared_ptr<arrangement_ops> delayed_arrangement(delayed_backend& device);
std::shared_ptr<attention_ops> delayed_attention(delayed_backend& device);
std::shared_ptr<convolution_ops> delayed_convolution(delayed_backend& device);
std::shared_ptr<elementwise_ops> delayed_elementwise(delayed_backend& device);
std::shared_ptr<embedding_ops> delayed_embedding(delayed_backend& device);
std::shared_ptr<linear_ops> delayed_linear(delayed_backend& device);
std::shared_ptr<loss_ops> delayed_loss(delayed_backend& device);
std::shared_ptr<normalisation_ops> delayed_normalisation(delayed_backend& device);
std::shared_ptr<optimizer_ops> delayed_optimizer(delayed_backend& device);
std::shared_ptr<recurrent_ops> delayed_recurrent(delayed_backend& device);

} // namespace penstock::testing
