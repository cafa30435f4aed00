// Measures a model on this machine for the planner: every layer as a stage would run it.
#pragma once

#include "actors/profiler/shape_shares.hpp"
#include "actors/run_options.hpp"
#include "kernels/model.hpp"
#include "planner/profile/profile.hpp"

#include <functional>

namespace penstock::actors {

struct profile_options {
  std::vector<std::int64_t> samples{32}; ///< of a micro-batch, each measured
  /// So many run at once, as they will in training, each with its share of the cores; the first is measured. Each count
  /// gives measurements of its own.
  std::vector<int> workers{1};
  /// What sequences are like; empty: nominal. Times and what is sent are their mean by share, memory is the most of
  /// all.
  std::vector<shape_share> shapes{};
  int warmup = 2;     ///< passes before any that counts
  int repeats = 9;    ///< passes at most; at least 3 are made
  double seconds = 6; ///< stop repeating one size, of all shapes together, after this long
  optimizer_options optimizer;
  bool reference_kernels = false;
  std::string device = "cpu"; ///< kind of the devices that compute
  std::uint64_t seed = 1;
  /// Called before each pass: how many of how many, and what it is ("32 samples, 2 workers of 1 thread"). Return false
  /// to give up.
  std::function<bool(int done, int total, const std::string& what)> progress{};
  std::function<bool()> should_stop{}; ///< asked after every layer, on any worker's thread; true to give up
};

/// Times: medians over the repeats of each layer within passes of the whole model, with the stage's own code, threads,
/// layouts and fusion; the loss counts to the last layer; sums are the medians of whole passes. A pass is two
/// micro-batches, whose second backward adds to gradients, and an update. Bytes are counted in a pass of their own.
/// What contradicts itself (planner::doubts_of) is measured a second time, and the quieter of both is kept; what does
/// so still is in the profile's doubts. `model_options` says what fixes the shapes. Of two counts of workers with as
/// many threads each the larger is measured. Throws usage_error for sizes, workers, repeats or seconds that make no
/// sense, penstock::error when `progress` gave up.
planner::profile profile_model(const std::shared_ptr<const model>& net, const std::string& model_options,
                               const profile_options& options);

/// The divisors of the cores that this process may use: with so many workers none of them lies idle.
std::vector<int> useful_worker_counts();

} // namespace penstock::actors
