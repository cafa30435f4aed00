// The layers that come with Penstock, and the one list of them: CMake and check_tree read it, the plug-in header
// includes it. NAME.hpp has the options, NAME.cpp the mathematics, tests/kernels/layers/NAME_test.cpp the test. Each is
// a thin, stateless shell: geometry, names and initialisers in the layer, arithmetic in the families of operations.
// Initialisers and parameter names are PyTorch's.
#pragma once

#include "kernels/layers/activation.hpp"
#include "kernels/layers/adaptive_average_pool2d.hpp"
#include "kernels/layers/add.hpp"
#include "kernels/layers/additive_attention.hpp"
#include "kernels/layers/arrange.hpp"
#include "kernels/layers/attention.hpp"
#include "kernels/layers/batch_norm2d.hpp"
#include "kernels/layers/bidirectional_lstm.hpp"
#include "kernels/layers/concat.hpp"
#include "kernels/layers/conv2d.hpp"
#include "kernels/layers/dropout.hpp"
#include "kernels/layers/embedding.hpp"
#include "kernels/layers/flatten.hpp"
#include "kernels/layers/layer_norm.hpp"
#include "kernels/layers/linear.hpp"
#include "kernels/layers/locked_dropout.hpp"
#include "kernels/layers/lstm.hpp"
#include "kernels/layers/pool2d.hpp"
#include "kernels/layers/relu.hpp"
#include "kernels/layers/scale_channels.hpp"
#include "kernels/layers/softmax.hpp"
