// Which layouts to hold a primitive to: the fixed ones, unless oneDNN has only its slow reference for them.
#pragma once

#include "kernels/check.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <initializer_list>
#include <optional>
#include <string>

namespace penstock {

/// What oneDNN may choose itself; what it chooses otherwise than stored is reordered on the way in and out.
enum class freedom : std::uint8_t { none, activations, weights, all };

/// make(freedom) -> primitive descriptor. The first of `choices` that oneDNN has an optimized implementation for, else
/// the first it has any for: a function of shapes alone. Throws penstock::error naming `what` when there is none.
template <class Make>
auto first_optimized(const std::string& what, std::initializer_list<freedom> choices, const Make& make) {
  std::optional<decltype(make(freedom::none))> fallback;
  std::string reason;
  for (const freedom choice : choices) {
    try {
      auto pd = make(choice);
      // Names of implementations: "jit:avx512_core", "brgconv:...", "gemm:jit", "ref:any".
      if (std::string(pd.impl_info_str()).find("ref") == std::string::npos) return pd;
      if (!fallback) fallback = std::move(pd);
    } catch (const dnnl::error& failure) {
      reason = failure.what();
    }
  }
  if (!fallback) throw error("[cpu] oneDNN has no implementation of " + what + ": " + reason);
  return *std::move(fallback);
}

} // namespace penstock
