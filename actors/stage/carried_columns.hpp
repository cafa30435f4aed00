// What the minibatches of a stage hand on to those that continue them, by batch column (DESIGN section 3).
#pragma once

#include "actors/run/stretch.hpp"
#include "kernels/memory_pool.hpp"
#include "kernels/segment.hpp"

#include <map>
#include <optional>
#include <vector>

namespace penstock::actors {

struct column_range {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Batch columns that a replica of a stage has in that stretch, by micro-batch; replica -1: all of them.
std::vector<column_range> columns_of(const stretch& run, int stage, int replica);

/// Of one replica, or of an evaluation. Used by work on its stream, in order, and at a drain.
class carried_columns {
public:
  /// `specs`: segment::carried(), which outlive it. `begin`: of all columns, plain, in their order; empty: nothing yet.
  explicit carried_columns(const std::vector<segment_state>& specs, std::vector<tensor> begin = {})
      : specs_(&specs), all_(std::move(begin)) {}

  bool is_needed() const { return !specs_->empty(); }
  /// A stretch begins, in which these columns are its own. `run.carried` takes the place of what it has.
  void begin(const stretch& run, std::vector<column_range> own);
  /// What is carried into that micro-batch: empty in time block 0. Throws penstock::error where the minibatch before
  /// has left nothing.
  std::vector<tensor> take(backend& ops, const microbatch_info& info) const;
  void put(const microbatch_info& info, std::vector<tensor> handed_on);
  /// In the host's memory, as "FIRST/NAME", FIRST the first of the tensor's columns. Of its own columns; where no
  /// stretch has begun, of all if `speaks_for_all`. Zeros where nothing was left.
  named_tensors copy(backend& ops, memory_pool& pool, bool speaks_for_all) const;

private:
  tensor rows_of(std::size_t index, const column_range& columns, memory_pool& pool) const;

  const std::vector<segment_state>* specs_;
  std::vector<tensor> all_;
  std::map<std::int64_t, std::vector<tensor>> pieces_; // by first column, as the micro-batches left them
  std::optional<std::vector<column_range>> own_;       // none before the first stretch
};

/// Pieces of one tensor ("FIRST/NAME" without the name) put together, by first column. Throws penstock::error, `what`
/// before the reason, where columns are missing or doubled or shapes are not `spec`'s.
tensor join_columns(const std::map<std::int64_t, tensor>& pieces, const state_spec& spec, memory_pool& pool,
                    const std::string& what);

} // namespace penstock::actors
