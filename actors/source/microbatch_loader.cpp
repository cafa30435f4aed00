// Samples to tensors.
#include "actors/source/microbatch_loader.hpp"

#include "planner/schedule.hpp"

namespace penstock::actors {

microbatch_loader::microbatch_loader(std::shared_ptr<const model> net, const dataset& data, const batching& how,
                                     int microbatches)
    : net_(std::move(net)), inputs_(data.inputs()), extents_(data.extents()), binding_(bind_data(*net_, data)),
      minibatches_(data.minibatches(how)),
      samples_(data.columns(how) > 0 ? minibatches_->per_epoch() * how.batch : data.size()),
      microbatches_(microbatches), column_blocks_(data.columns(how) > 0 ? how.column_blocks : 0) {}

loaded_microbatch microbatch_loader::load(std::int64_t minibatch, std::int32_t microbatch) {
  const auto facts = minibatches_->facts(minibatch);
  std::int64_t first = 0;
  for (int m = 0; m < microbatch; ++m)
    first += planner::microbatch_samples(facts.samples, microbatches_, m);
  const auto samples = planner::microbatch_samples(facts.samples, microbatches_, microbatch);
  loaded_microbatch result{.info = binding_.info(*net_, facts, samples)};
  if (column_blocks_ > 0) {
    result.info.column = facts.column + first;
    result.info.time_block = minibatch % minibatches_->per_epoch() / column_blocks_;
  }
  result.inputs.resize(net_->inputs().size());
  if (samples == 0) return result;
  std::vector<tensor> filled;
  for (const auto& input : inputs_)
    filled.push_back(
        tensor::allocate(pool_, input.spec.type, dims_of(input, extents_, facts, samples), memory_use::activations));
  minibatches_->load(minibatch, first, filled);
  for (std::size_t i = 0; i < result.inputs.size(); ++i)
    result.inputs[i] = filled[binding_.inputs[i]];
  return result;
}

std::vector<tensor> fed_of(const segment& layers, const loaded_microbatch& loaded) {
  std::vector<tensor> fed;
  const auto& inputs = layers.whole().inputs();
  for (const auto id : layers.fed())
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].value == id) fed.push_back(loaded.inputs[i]);
  return fed;
}

} // namespace penstock::actors
