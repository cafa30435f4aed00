// Short forms for the tests: requests in one call, lists as text such as "F0 F1 B0 U0 F2@1".
#pragma once

#include "planner/sequence.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace penstock::planner::testing {

inline schedule_request request(std::string name, std::vector<int> replicas, int microbatches, std::int64_t minibatches,
                                std::string_view in_flight = "") {
  schedule_request r{.name = std::move(name),
                     .replicas = std::move(replicas),
                     .microbatches = microbatches,
                     .minibatches = minibatches};
  if (!in_flight.empty()) r.in_flight = parse_in_flight(in_flight);
  return r;
}

/// The actions of a stage's replica, written out.
inline std::vector<action> list_of(const schedule& s, int stage, int replica) {
  auto all = write_out(sequence(s, worker{position_of(s, stage), replica}));
  std::erase_if(all, [&](const action& a) { return a.stage != stage; });
  return all;
}

/// I and W are the input's and the weights' part of a backward. Micro-batches appear as "F0.2" where M > 1, versions
/// read as "@v" where v > 0.
inline std::string text_of(const schedule& s, int stage, int replica) {
  std::string text;
  for (const auto& a : list_of(s, stage, replica)) {
    if (!text.empty()) text += ' ';
    text += std::string("FBIWU")[static_cast<std::size_t>(a.kind)];
    text += std::to_string(a.minibatch);
    if (a.kind == action_kind::update) continue;
    if (s.microbatches > 1) text += '.' + std::to_string(a.microbatch);
    if (a.version > 0) text += '@' + std::to_string(a.version);
  }
  return text;
}

/// Every list, stage by stage and replica by replica.
inline std::vector<std::string> texts_of(const schedule& s) {
  std::vector<std::string> all;
  for (std::size_t stage = 0; stage < s.stages.size(); ++stage)
    for (int replica = 0; replica < s.stages[stage].replicas; ++replica)
      all.push_back(text_of(s, static_cast<int>(stage), replica));
  return all;
}

/// The message of the std::invalid_argument that `work` throws; "" if it throws none.
template <class Work>
std::string refusal_of(Work work) {
  try {
    work();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

} // namespace penstock::planner::testing
