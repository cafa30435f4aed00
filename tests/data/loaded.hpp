// Minibatches of a data set as plain numbers.
#pragma once

#include "actors/dataset.hpp"
#include "kernels/memory_pool.hpp"

#include <map>
#include <string>
#include <vector>

namespace penstock::test {

using rows = std::vector<std::vector<std::int64_t>>;

/// The i64 inputs by name, a row for each of `samples` samples from `first` on (all of the minibatch unless said).
inline std::map<std::string, rows> loaded(const actors::dataset& data, const actors::minibatch_list& list,
                                          std::int64_t minibatch, std::int64_t first = 0, std::int64_t samples = -1) {
  const auto facts = list.facts(minibatch);
  if (samples < 0) samples = facts.samples - first;
  static memory_pool pool;
  const auto inputs = data.inputs();
  const auto extents = data.extents();
  std::vector<tensor> tensors;
  for (const auto& input : inputs)
    tensors.push_back(tensor::allocate(pool, input.spec.type, actors::dims_of(input, extents, facts, samples),
                                       memory_use::activations));
  list.load(minibatch, first, tensors);
  std::map<std::string, rows> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].spec.type != dtype::i64) continue;
    const auto width = tensors[i].elements() / samples;
    const auto* const begin = tensors[i].data<std::int64_t>();
    for (std::int64_t row = 0; row < samples; ++row)
      values[inputs[i].name].emplace_back(begin + row * width, begin + (row + 1) * width);
  }
  return values;
}

} // namespace penstock::test
