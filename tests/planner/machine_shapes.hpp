// Machines for the tests: straight and replicated pipelines of equal stages on a link of their own.
#pragma once

#include "planner/machine.hpp"

#include <numeric>
#include <stdexcept>
#include <vector>

namespace penstock::planner::testing {

/// Replica counts to devices, numbered stage by stage; every stage alike.
inline machine uniform_machine(const std::vector<int>& replicas, const machine_stage& stage,
                               std::vector<machine_link> links = {}) {
  machine m;
  m.links = std::move(links);
  int next = 0;
  for (const auto count : replicas) {
    m.stages.push_back(stage);
    m.stages.back().devices.resize(static_cast<std::size_t>(count));
    std::iota(m.stages.back().devices.begin(), m.stages.back().devices.end(), next);
    next += count;
  }
  return m;
}

/// One level among all devices.
inline std::vector<machine_link> flat(int devices, double bytes_per_second, double latency_s = 0) {
  return {{.group = devices, .bytes_per_second = bytes_per_second, .latency_s = latency_s}};
}

inline std::vector<int> ones(int stages) {
  return std::vector<int>(static_cast<std::size_t>(stages), 1);
}

/// The first span of that kind, of any micro-batch.
inline const simulated_span& span_of(const simulation& run, action_kind kind, int stage, std::int64_t minibatch,
                                     std::int32_t microbatch = 0, int replica = -1) {
  for (const auto& s : run.spans)
    if (s.what.kind == kind && s.stage == stage && s.what.minibatch == minibatch &&
        (kind == action_kind::update || s.what.microbatch == microbatch) && (replica < 0 || s.replica == replica))
      return s;
  throw std::out_of_range("no such span");
}

} // namespace penstock::planner::testing
