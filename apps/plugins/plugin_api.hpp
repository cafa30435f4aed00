// For writers of plug-ins: the one header to include, and the one macro that makes a shared object a plug-in.
//
//   class swish : public penstock::layer { ... };
//   static void add_all(penstock::apps::plugin_registry& registry) {
//     registry.add_layer("swish", "x * sigmoid(x)", [](std::string_view) { return std::make_shared<swish>(); });
//   }
//   PENSTOCK_PLUGIN("swish", add_all)
//
// Build it with penstock_add_plugin(NAME sources...) after find_package(Penstock). It links no Penstock library: the
// program that loads it exports what it needs, so that there is one copy of everything, and exceptions and dynamic_cast
// work across the border. Keep your own names in a namespace of your own.
#pragma once

#include "apps/plugins/plugin_registry.hpp"
#include "kernels/check.hpp"
#include "kernels/device_kinds.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/loss_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"
#include "kernels/stream.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <penstock_plugin_abi.hpp>

#ifndef PENSTOCK_VERSION
#error "plugin_api.hpp needs the CMake target penstock::plugin_api (penstock_add_plugin links it)"
#endif

namespace penstock::apps {

// plugin_abi, in the header above, is a hash of this header and all it includes. What follows catches what that cannot
// see: flags, another standard library, and headers that were altered after they were numbered.

/// Mixes the sizes of the types that cross the border: headers or flags that change a layout change it.
template <class... Types>
constexpr std::uint64_t layout_hash() {
  std::uint64_t hash = 0xcbf29ce484222325ULL; // FNV-1a
  ((hash = (hash ^ sizeof(Types)) * 0x100000001b3ULL, hash = (hash ^ alignof(Types)) * 0x100000001b3ULL), ...);
  return hash;
}

// Static, or a plug-in would be told what its program's copy of these functions finds.

/// Grows with every virtual function of a class: where one more would come in its table (the C++ ABI that g++ and
/// clang++ share keeps that place in a pointer to the member).
template <class Class>
static std::uint64_t table_length() {
  struct one_more : Class {
    virtual void added() {}
  };
  const auto member = &one_more::added;
  std::array<std::uint64_t, 2> parts{};
  static_assert(sizeof member == sizeof parts);
  std::memcpy(parts.data(), &member, sizeof parts);
  return parts[0];
}

template <class... Classes>
static std::uint64_t table_hash(std::uint64_t hash) {
  ((hash = (hash ^ table_length<Classes>()) * 0x100000001b3ULL), ...);
  return hash;
}

static inline std::uint64_t plugin_layouts() {
  return table_hash<layer, loss_function, backend, device, stream, allocator, event, tensor_format, convolution_ops,
                    elementwise_ops, linear_ops, loss_ops, normalisation_ops, optimizer_ops, actors::freeze_policy>(
      layout_hash<std::string, std::vector<int>, std::function<void()>, std::shared_ptr<int>, buffer, tensor,
                  tensor_spec, parameter_spec, state_spec, random_key, run_context, forward_result, backward_result,
                  backward_input_result, layer, backend, conv2d_args, layer_gradients, model_layer, model_value,
                  model_input, model_loss, model,

                  model_builder, model_options, model_entry, plugin_layer, plugin_registry, layer_options,
                  actors::freeze_layer_seen, actors::freeze_unit_seen, actors::freeze_statistics,
                  actors::plugin_freeze_policy>());
}

} // namespace penstock::apps

#define PENSTOCK_TEXT_OF(x) #x
#define PENSTOCK_TEXT(x) PENSTOCK_TEXT_OF(x)
#if defined(__clang__)
#define PENSTOCK_COMPILER "clang++ " PENSTOCK_TEXT(__clang_major__)
#define PENSTOCK_COMPILER_MINOR PENSTOCK_TEXT(__clang_minor__)
#else
#define PENSTOCK_COMPILER "g++ " PENSTOCK_TEXT(__GNUC__)
#define PENSTOCK_COMPILER_MINOR PENSTOCK_TEXT(__GNUC_MINOR__)
#endif
#if defined(_GLIBCXX_RELEASE)
#define PENSTOCK_LIBRARY                                                                                               \
  "libstdc++ " PENSTOCK_TEXT(_GLIBCXX_RELEASE) " string ABI " PENSTOCK_TEXT(_GLIBCXX_USE_CXX11_ABI)
#else
#define PENSTOCK_LIBRARY "another standard library"
#endif
/// What must be equal on both sides.
#define PENSTOCK_BUILD                                                                                                 \
  "Penstock " PENSTOCK_VERSION ", " PENSTOCK_COMPILER ", " PENSTOCK_LIBRARY ", C++ " PENSTOCK_TEXT(__cplusplus)

/// What the entry point returns. `abi` and `compiler` keep their places for ever; the rest belongs to that ABI number.
struct penstock_plugin {
  std::uint32_t abi;
  const char* compiler; ///< "g++ 12.2", for messages
  const char* build;    ///< PENSTOCK_BUILD
  std::uint64_t layouts;
  const char* name; ///< unique among the plug-ins of a run
  void (*register_into)(penstock::apps::plugin_registry&);
};

/// Defines the entry point of a plug-in: its name, and the void function(plugin_registry&) that adds its layers, models
/// and freeze policies.
#define PENSTOCK_PLUGIN(plugin_name, function)                                                                         \
  extern "C" __attribute__((visibility("default"))) const penstock_plugin* penstock_plugin_entry() {                   \
    static const penstock_plugin self{penstock::apps::plugin_abi,                                                      \
                                      PENSTOCK_COMPILER "." PENSTOCK_COMPILER_MINOR,                                   \
                                      PENSTOCK_BUILD,                                                                  \
                                      penstock::apps::plugin_layouts(),                                                \
                                      plugin_name,                                                                     \
                                      function};                                                                       \
    return &self;                                                                                                      \
  }
