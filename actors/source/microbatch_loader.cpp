// Samples to tensors.
#include "actors/source/microbatch_loader.hpp"

#include "kernels/check.hpp"
#include "kernels/finite.hpp"
#include "planner/schedule.hpp"

#include <numeric>

namespace penstock::actors {

microbatch_loader::microbatch_loader(const dataset& data, std::int64_t batch, int microbatches, std::uint64_t seed,
                                     bool training, last_batch last)
    : data_(data), plan_(data.size(), batch, last), microbatches_(microbatches), seed_(seed), training_(training) {}

microbatch_loader::order_ptr microbatch_loader::order_of(std::int64_t epoch) {
  const std::lock_guard lock(mutex_);
  for (const auto& [e, o] : orders_)
    if (e == epoch) return o;
  if (orders_.size() >= 2) orders_.erase(orders_.begin());
  order_ptr o = std::make_shared<const std::vector<std::int64_t>>(
      epoch_order(data_.size(), seed_, epoch, training_ && data_.shuffled()));
  orders_.emplace_back(epoch, o);
  return o;
}

loaded_microbatch microbatch_loader::load(std::int64_t minibatch, std::int32_t microbatch) {
  const auto range = plan_.at(minibatch);
  const auto epoch = training_ ? range.epoch : 0;
  std::int64_t first = range.first;
  for (int m = 0; m < microbatch; ++m)
    first += planner::microbatch_samples(range.samples, microbatches_, m);
  loaded_microbatch result;
  result.samples = planner::microbatch_samples(range.samples, microbatches_, microbatch);
  result.minibatch_samples = range.samples;
  if (result.samples == 0) return result;
  auto dims = data_.input().dims;
  const auto elements = element_count(dims);
  dims.insert(dims.begin(), result.samples);
  result.input = tensor::allocate(pool_, dtype::f32, dims, memory_use::activations);
  result.labels = tensor::allocate(pool_, dtype::i64, {result.samples}, memory_use::activations);
  const auto order = order_of(epoch);
  for (std::int64_t i = 0; i < result.samples; ++i) {
    const auto sample = (*order)[static_cast<std::size_t>(first + i)];
    const std::span<float> image(result.input.data<float>() + i * elements, static_cast<std::size_t>(elements));
    const auto label = data_.load({seed_, epoch, sample}, training_, image.data());
    if (const auto place = first_nonfinite(image))
      throw error("[data] sample " + std::to_string(sample) + " holds " +
                  value_text(image[*place], data_.input().dims, *place) + "; wanted finite numbers (" +
                  data_.description() + ")");
    if (label < 0 || label >= data_.classes())
      throw error("[data] sample " + std::to_string(sample) + " has label " + std::to_string(label) + "; wanted 0 to " +
                  std::to_string(data_.classes() - 1));
    result.labels.data<std::int64_t>()[i] = label;
  }
  return result;
}

} // namespace penstock::actors
