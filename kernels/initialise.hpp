// Starting values of a model's parameters and states, from the seed and their names alone.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/model.hpp"
#include "kernels/safetensors.hpp"

namespace penstock {

/// Starting values of one parameter of that global name into `values` (row-major). A value depends on the seed, the
/// name, the initializer and the element's place, and on nothing else: neither on other parameters, nor on the order,
/// the partition or the number of threads.
///
/// The generator is splitmix64 (Steele, Lea and Flood, 2014) read at any place: with mix() its finalizer, gamma
/// 0x9E3779B97F4A7C15 and key = mix(mix(seed + gamma) xor name_hash(name)) (kernels/segment.hpp), word k is mix(key +
/// (k + 1) gamma).
///   uniform: element i is value * (2u - 1), u = (upper 53 bits of word i + 1/2) / 2^53;
///   normal:  elements 2j and 2j + 1 are value * r cos t and value * r sin t (Box and Muller), r = sqrt(-2 ln u1),
///            t = 2 pi u2, u1 and u2 being (upper, lower half of word j + 1/2) / 2^32;
///   truncated_normal: as normal; an element beyond the cut is drawn again, value * r cos t of word i + n 2^40 in the
///            n-th try, until it is within.
/// Computed in double, rounded once. By at most `threads` threads, 0: as many as there are usable cores.
void initialise(std::span<float> values, const initializer& init, std::uint64_t seed, std::string_view name,
                int threads = 0);

/// One parameter by `initialise`, in that format. Large matrices go there in pieces, so that they never lie in memory
/// twice. Throws penstock::error when a value is not finite.
tensor initial_parameter(backend& ops, const parameter_spec& spec, std::string_view name, const format_ptr& format,
                         std::uint64_t seed, int threads = 0);

/// Every parameter by its global name, plain f32, by `initialise`.
named_tensors initial_weights(const model& network, std::uint64_t seed, memory_pool& pool);

/// Every state by its global name, plain, filled with its initial value.
named_tensors initial_states(const model& network, memory_pool& pool);

} // namespace penstock
