// Times of FPGA-like devices: operation counts over multipliers, floors by memory traffic and links.
#include "planner/explore/streaming.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace penstock::planner {

namespace {

const streaming_device* streaming_of(const cluster& c, int device) {
  const auto& type = c.devices[static_cast<std::size_t>(c.type_of(device))];
  return type.streaming ? &*type.streaming : nullptr;
}

/// All devices of a stage are of one type.
const streaming_device* streaming_of(const cluster& c, const machine_stage& stage) {
  return stage.devices.empty() ? nullptr : streaming_of(c, stage.devices.front());
}

measurement measure_by_operations(const streaming_device& d, const profile& p, const measurement& bytes) {
  auto m = bytes;
  const auto multiplications_per_s = d.multipliers * d.clock_hz * d.efficiency;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    auto& layer = m.layers[l];
    layer.forward_seconds = p.layers[l].forward_flops / 2 * static_cast<double>(m.samples) / multiplications_per_s;
    layer.backward_seconds = p.layers[l].frozen ? 0 : 2 * layer.forward_seconds;
    layer.accumulate_seconds = 0;
  }
  m.update_seconds.clear();
  return m;
}

double at(const std::vector<double>& values, std::size_t microbatch) {
  return values.size() == 1 ? values.front() : values[microbatch];
}

/// Whether messages from `from` to `to` stream beside the computation, and how long a byte takes.
struct streaming_link {
  bool exists = false;
  double seconds_per_byte = 0;
};

/// Shared and half-duplex media stay with the links, where they are contended for.
streaming_link link_between(const machine& m, const cluster& c, std::size_t from, std::size_t to) {
  if (!streaming_of(c, m.stages[from]) || !streaming_of(c, m.stages[to])) return {};
  streaming_link link{true, 0};
  for (const auto a : m.stages[from].devices)
    for (const auto b : m.stages[to].devices) {
      const auto level = c.level_between(a, b);
      if (level < 0) continue;
      const auto& l = c.levels[static_cast<std::size_t>(level)];
      if (l.shared || l.half_duplex) return {};
      link.seconds_per_byte = std::max(link.seconds_per_byte, 1 / l.bandwidth_bytes_per_s);
    }
  return link;
}

} // namespace

bool has_streaming_devices(const cluster& c) {
  return std::any_of(c.devices.begin(), c.devices.end(), [](const device_type& t) { return t.streaming.has_value(); });
}

cluster with_streaming_profiles(const cluster& c, const profile& p) {
  if (!has_streaming_devices(c)) return c;
  const auto flops = std::accumulate(p.layers.begin(), p.layers.end(), 0.0,
                                     [](double sum, const profile_layer& l) { return sum + l.forward_flops; });
  auto result = c;
  for (auto& type : result.devices) {
    if (!type.streaming) continue;
    if (flops <= 0)
      throw std::invalid_argument("device type '" + type.name + "' is timed by operations: the profile of '" + p.model +
                                  "' has no forward_flops, wanted them for its layers");
    auto own = p;
    for (auto& m : own.measurements)
      m = measure_by_operations(*type.streaming, p, m);
    type.own_profile = std::make_shared<const profile>(std::move(own));
    type.speed = 1;
  }
  return result;
}

streaming_floor floor_of(const streaming_device& d, double weight_bytes, double kept_bytes, std::int64_t in_flight) {
  if (2 * weight_bytes + static_cast<double>(in_flight) * kept_bytes <= d.on_chip_bytes) return {};
  return {.on_chip = false,
          .forward_seconds = (weight_bytes + kept_bytes) / d.memory_bytes_per_s,
          .backward_seconds = (2 * weight_bytes + kept_bytes) / d.memory_bytes_per_s};
}

double stream_through(machine& m, const cluster& c, const std::vector<std::int64_t>& in_flight, int microbatches) {
  const auto count = static_cast<std::size_t>(microbatches);
  const auto n = m.stages.size();
  std::vector<streaming_link> after(n);
  for (std::size_t s = 0; s + 1 < n; ++s)
    after[s] = link_between(m, c, s, s + 1);
  double streamed = 0;
  for (std::size_t s = 0; s < n; ++s) {
    auto& stage = m.stages[s];
    const auto* device = streaming_of(c, stage);
    if (!device) continue;
    std::vector<double> forward(count), backward(count);
    for (std::size_t b = 0; b < count; ++b) {
      const auto floor = floor_of(*device, stage.weight_bytes, at(stage.kept_bytes, b), in_flight[s]);
      // In and out are separate directions of a full-duplex link; a backward moves the same bytes the other way.
      auto link = at(stage.output_bytes, b) * after[s].seconds_per_byte;
      if (s > 0) link = std::max(link, at(m.stages[s - 1].output_bytes, b) * after[s - 1].seconds_per_byte);
      forward[b] = std::max({at(stage.forward_seconds, b), floor.forward_seconds, link});
      backward[b] = std::max({at(stage.backward_seconds, b), floor.backward_seconds, link});
      if (after[s].exists) streamed += 2 * at(stage.output_bytes, b);
    }
    stage.forward_seconds = std::move(forward);
    stage.backward_seconds = std::move(backward);
  }
  // Only now: the stage after looked at these bytes as well.
  for (std::size_t s = 0; s < n; ++s)
    if (after[s].exists) m.stages[s].output_bytes.assign(1, 0);
  return streamed;
}

fbp_estimate estimate_fbp(const machine& m, const cluster& c, int microbatches) {
  const auto n = m.stages.size();
  fbp_estimate e;
  std::vector<double> period(n); // of one micro-batch: its F + B, or what is slower
  double slowest = 0, fill = 0;
  for (std::size_t s = 0; s < n; ++s) {
    const auto& stage = m.stages[s];
    const auto in_flight = std::min<std::int64_t>(2 * static_cast<std::int64_t>(n - s), microbatches);
    const auto most = [](const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); };
    period[s] = most(stage.forward_seconds) + most(stage.backward_seconds);
    if (const auto* device = streaming_of(c, stage)) {
      // Both directions share the device's memory, so their traffic adds.
      const auto floor = floor_of(*device, stage.weight_bytes, most(stage.kept_bytes), in_flight);
      period[s] = std::max(period[s], floor.forward_seconds + floor.backward_seconds);
    }
    if (s + 1 < n) {
      const auto level = c.level_between(stage.devices.front(), m.stages[s + 1].devices.front());
      const auto& link = c.levels[static_cast<std::size_t>(level)];
      const auto bytes = most(stage.output_bytes) * (link.half_duplex || link.shared ? 2 : 1);
      period[s] = std::max(period[s], bytes / link.bandwidth_bytes_per_s);
      fill += 2 * link.latency_s;
      e.bytes_sent += 2 * most(stage.output_bytes) * microbatches;
    }
    fill += 2 * period[s];
    if (period[s] > slowest) {
      slowest = period[s];
      e.slowest_stage = static_cast<int>(s);
    }
    const auto kept = static_cast<double>(in_flight) * most(stage.kept_bytes);
    const auto fixed = stage.weight_bytes + stage.gradient_bytes + stage.optimizer_bytes + stage.state_bytes;
    e.in_flight.push_back(in_flight);
    e.memory.push_back({.total = fixed + kept + most(stage.workspace_bytes),
                        .weights = stage.weight_bytes,
                        .gradients = stage.gradient_bytes,
                        .optimizer_state = stage.optimizer_bytes,
                        .activations = kept,
                        .workspace = most(stage.workspace_bytes)});
  }
  e.seconds = fill + (microbatches - 1) * slowest;
  for (std::size_t s = 0; s < n; ++s) {
    const auto& stage = m.stages[s];
    const auto work = stage.forward_seconds.front() + stage.backward_seconds.front();
    e.busy.push_back(work * microbatches / e.seconds);
  }
  return e;
}

} // namespace penstock::planner
