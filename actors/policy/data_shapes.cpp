// Shapes of a data set's inputs.
#include "actors/dataset.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::actors {

shape dims_of(const data_input& input, const std::vector<std::string>& names, const minibatch_facts& of,
              std::int64_t samples) {
  auto dims = input.spec.dims;
  for (std::size_t axis = 0; axis < input.extents.size(); ++axis) {
    if (input.extents[axis].empty()) continue;
    const auto found = std::find(names.begin(), names.end(), input.extents[axis]);
    check(found != names.end(), "an input of a data set varies by an extent that it does not have");
    dims[axis] = of.extents[static_cast<std::size_t>(found - names.begin())];
  }
  dims.insert(dims.begin(), samples);
  return dims;
}

} // namespace penstock::actors
