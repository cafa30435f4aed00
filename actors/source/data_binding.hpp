// Which of a data set's inputs, counts and extents are which of a model's.
#pragma once

#include "actors/dataset.hpp"
#include "kernels/model.hpp"

namespace penstock::actors {

struct data_binding {
  std::vector<std::size_t> inputs; ///< by the model's inputs: index in the data set's
  std::vector<std::size_t> counts; ///< by the model's counts
  std::vector<std::optional<std::size_t>>
      extents; ///< by the model's extents; none: the data set keeps to the nominal one

  /// What a micro-batch of so many samples is told of its minibatch.
  microbatch_info info(const model& net, const minibatch_facts& of, std::int64_t samples) const;
};

/// Throws usage_error, "data: ...", for what the model reads and the data set has not, or has in another form.
data_binding bind_data(const model& net, const dataset& data);

} // namespace penstock::actors
