// Follows buffers by identity from the layer that makes them to the layers that keep them.
#include "actors/profiler/byte_counter.hpp"

#include <algorithm>

namespace penstock::actors {

namespace {

std::size_t index_of(value_id id) {
  return static_cast<std::size_t>(id);
}

} // namespace

byte_counter::byte_counter(const segment& layers, allocator& pool, std::span<const tensor> inputs,
                           std::span<const double> weight_bytes)
    : layers_(layers), net_(layers.whole()), pool_(pool), gradients_(weight_bytes.size(), 0),
      output_buffers_(net_.values().size(), nullptr), is_kept_(net_.values().size(), false),
      output_bytes_(weight_bytes.size(), 0), forward_peak_(weight_bytes.size(), 0),
      backward_peak_(weight_bytes.size(), 0) {
  for (const auto& t : inputs)
    inputs_.push_back(t.storage().identity());
  std::int64_t sum = 0;
  for (std::size_t l = weight_bytes.size(); l-- > 0;)
    gradients_[l] = sum += static_cast<std::int64_t>(weight_bytes[l]);
  pool_.reset_peak();
  standing_ = pool_.usage().total_live_bytes;
}

// Buffers are recycled, so identity only tells among those alive: this layer's own outputs and its inputs.
int byte_counter::owner_of(const tensor& t, int layer) {
  const void* buffer = t.storage().identity();
  const auto& l = net_.layers()[static_cast<std::size_t>(layer)];
  int owner = layer;
  const auto match = [&](value_id id) {
    if (output_buffers_[index_of(id)] != buffer) return;
    is_kept_[index_of(id)] = true;
    owner = net_.value(id).producer;
    for (const int reader : net_.value(id).consumers) // the absorbed ReLU's value is the same buffer
      if (layers_.is_absorbed(reader))
        is_kept_[index_of(net_.layers()[static_cast<std::size_t>(reader)].outputs.front())] = true;
  };
  for (const auto id : l.inputs)
    match(id);
  for (const auto id : l.outputs)
    match(id);
  return owner;
}

void byte_counter::observe(const layer_observation& o) {
  if (o.pass != layer_pass::forward)
    observe_backward(o);
  else
    observe_forward(o);
  pool_.reset_peak();
}

// The output of an absorbed ReLU comes from the layer it was fused into: both values are one buffer.
void byte_counter::note_output(value_id id, const tensor& t) {
  const auto& value = net_.value(id);
  output_bytes_[static_cast<std::size_t>(value.producer)] += static_cast<std::int64_t>(t.bytes());
  output_buffers_[index_of(id)] = t.storage().identity();
  for (const int reader : value.consumers)
    if (layers_.is_absorbed(reader)) note_output(net_.layers()[static_cast<std::size_t>(reader)].outputs.front(), t);
}

void byte_counter::observe_forward(const layer_observation& o) {
  const auto l = static_cast<std::size_t>(o.layer);
  for (std::size_t i = 0; i < o.outputs.size(); ++i)
    note_output(net_.layers()[l].outputs.at(i), o.outputs[i]);
  for (const auto& t : o.saved) {
    if (!t) continue;
    const void* buffer = t.storage().identity();
    const int owner = owner_of(t, o.layer);
    if (kept_.contains(buffer) || std::find(inputs_.begin(), inputs_.end(), buffer) != inputs_.end()) continue;
    const auto bytes = static_cast<std::int64_t>(t.storage().size());
    kept_[buffer] = {owner, bytes};
  }
  forward_peak_[l] = pool_.usage().total_peak_bytes - standing_;
}

void byte_counter::observe_backward(const layer_observation& o) {
  const auto l = static_cast<std::size_t>(o.layer);
  backward_peak_[l] = pool_.usage().total_peak_bytes - standing_ - gradients_[l];
}

void byte_counter::write(std::vector<planner::layer_cost>& costs) const {
  for (auto& c : costs)
    c.kept_bytes = 0;
  for (const auto& [buffer, kept] : kept_)
    costs[static_cast<std::size_t>(kept.owner)].kept_bytes += static_cast<double>(kept.bytes);
  double kept = 0;
  for (std::size_t l = 0; l < costs.size(); ++l) {
    kept += costs[l].kept_bytes;
    costs[l].output_bytes = static_cast<double>(output_bytes_[l]);
    costs[l].workspace_bytes = std::max(0.0, static_cast<double>(forward_peak_[l]) - kept);
    costs[l].backward_workspace_bytes = std::max(0.0, static_cast<double>(backward_peak_[l]) - kept);
    for (const auto id : net_.layers()[l].outputs)
      if (is_kept_[index_of(id)]) costs[l].kept_output_bytes = costs[l].output_bytes;
  }
}

} // namespace penstock::actors
