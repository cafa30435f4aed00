// A run as the sequence of its plan epochs: which plan a record ran under, and each epoch as a run of its own.
#pragma once

#include "actors/trace/record.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace penstock::actors {

/// 1 + the changes of plan.
std::size_t epoch_count(const trace_header& header);

/// The plan of an epoch; 0 is the first.
const planner::execution_plan& plan_of(const trace_header& header, std::size_t epoch);

/// The epoch of the record's stretch; an evaluation's by its own number or, where the header does not tell, the first
/// whose plan has such a stage replica.
std::size_t epoch_of(const trace_header& header, const trace_record& r);

/// Whether the later list is the earlier one, perhaps gone on with.
bool continues(const std::vector<trace_plan_epoch>& later, const std::vector<trace_plan_epoch>& earlier);

/// Gives each epoch the header that a run of its minibatches under its plan alone would have: no changes, its first
/// minibatch, and as `minibatches` those of the run up to its end.
class epoch_headers {
public:
  explicit epoch_headers(const trace_header& whole);
  trace_header at(std::size_t epoch) const;

private:
  trace_header base_; // without changes
  std::vector<trace_plan_epoch> changes_;
};

/// Plans times hosts may be many, so who keeps the header of every plan keeps no hosts.
trace_header without_hosts(trace_header header);

/// One plan epoch of a run.
struct epoch_part {
  std::size_t number = 0;
  trace_header header;               ///< as of epoch_headers, without hosts
  std::vector<trace_record> records; ///< in the order of the run's; all of stages and replicas that its plan has
  std::vector<trace_record> strays;  ///< of its stretches, but of a stage, replica or peer that its plan does not have
};

/// Every epoch, those without records too.
std::vector<epoch_part> split_by_epoch(const trace_header& header, const std::vector<trace_record>& records);

/// Calls visit(number, header, records) for each epoch; without copies where the run had one plan. Strays are left out.
template <class Visit>
void for_each_epoch(const trace_header& header, const std::vector<trace_record>& records, Visit visit) {
  if (header.changes.empty()) {
    visit(std::size_t{0}, header, records);
    return;
  }
  for (const auto& epoch : split_by_epoch(header, records))
    visit(epoch.number, epoch.header, epoch.records);
}

/// "plan epoch 1, minibatches 40 to 79", "plan epoch 2, no minibatch", "plan epoch 1, from minibatch 40" where the end
/// is not known. `header`: the epoch's own.
std::string name_of_epoch(std::size_t number, const trace_header& header);

} // namespace penstock::actors
