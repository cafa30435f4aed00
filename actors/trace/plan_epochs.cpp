// Deals records to epochs by the numbers of their stretches.
#include "actors/trace/plan_epochs.hpp"

#include "actors/trace/record_contract.hpp"

#include <algorithm>
#include <stdexcept>

namespace penstock::actors {

namespace {

bool stashes_weights(const planner::execution_plan& plan) {
  try {
    return planner::schedule_of(plan).stashes_weights;
  } catch (const std::invalid_argument&) {
    return true; // a schedule that this version does not know; whoever judges it says so
  }
}

/// By the number of its evaluation, which counts down.
std::size_t epoch_of_evaluation(const trace_header& header, const trace_record& r) {
  const auto& changes = header.changes;
  if (changes.front().first_evaluation < 0) {
    const auto next = std::partition_point(changes.begin(), changes.end(), [&](const trace_plan_epoch& change) {
      return change.first_evaluation >= r.stretch;
    });
    return static_cast<std::size_t>(next - changes.begin());
  }
  for (std::size_t epoch = 0; epoch < epoch_count(header); ++epoch)
    if (misfit_of_plan(r, plan_of(header, epoch)).empty()) return epoch;
  return 0;
}

} // namespace

std::size_t epoch_count(const trace_header& header) {
  return header.changes.size() + 1;
}

const planner::execution_plan& plan_of(const trace_header& header, std::size_t epoch) {
  return epoch == 0 ? header.plan : header.changes.at(epoch - 1).plan;
}

std::size_t epoch_of(const trace_header& header, const trace_record& r) {
  const auto& changes = header.changes;
  if (changes.empty()) return 0;
  if (r.stretch < 0) return epoch_of_evaluation(header, r);
  const auto next = std::partition_point(changes.begin(), changes.end(), [&](const trace_plan_epoch& change) {
    return change.first_stretch <= r.stretch;
  });
  return static_cast<std::size_t>(next - changes.begin());
}

bool continues(const std::vector<trace_plan_epoch>& later, const std::vector<trace_plan_epoch>& earlier) {
  return earlier.size() <= later.size() && std::equal(earlier.begin(), earlier.end(), later.begin());
}

epoch_headers::epoch_headers(const trace_header& whole) : base_(whole), changes_(whole.changes) {
  base_.changes.clear();
}

trace_header epoch_headers::at(std::size_t epoch) const {
  auto header = base_;
  if (epoch < changes_.size()) header.minibatches = changes_[epoch].first_minibatch;
  if (epoch == 0) return header;
  const auto& change = changes_.at(epoch - 1);
  header.plan = change.plan;
  header.first_minibatch = change.first_minibatch;
  header.stashes_weights = stashes_weights(change.plan);
  header.vertical_sync = change.plan.schedule == "pipedream-vertical-sync";
  return header;
}

trace_header without_hosts(trace_header header) {
  header.hosts = std::vector<std::string>();
  return header;
}

std::vector<epoch_part> split_by_epoch(const trace_header& header, const std::vector<trace_record>& records) {
  const epoch_headers headers(without_hosts(header));
  std::vector<epoch_part> epochs(epoch_count(header));
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    epochs[i].number = i;
    epochs[i].header = headers.at(i);
  }
  for (const auto& r : records) {
    auto& epoch = epochs[epoch_of(header, r)];
    (misfit_of_plan(r, epoch.header.plan).empty() ? epoch.records : epoch.strays).push_back(r);
  }
  return epochs;
}

std::string name_of_epoch(std::size_t number, const trace_header& header) {
  const auto name = "plan epoch " + std::to_string(number);
  const auto first = std::max<std::int64_t>(0, header.first_minibatch);
  if (header.minibatches < 0) return name + ", from minibatch " + std::to_string(first);
  if (header.minibatches <= first) return name + ", no minibatch";
  return name + ", minibatches " + std::to_string(first) + " to " + std::to_string(header.minibatches - 1);
}

} // namespace penstock::actors
