// A run's plan before it and its summary after it, for people.
#pragma once

#include "actors/trainer.hpp"
#include "apps/runner/options.hpp"

#include <string>

namespace penstock::apps {

struct work_counts {
  std::int64_t steps_per_epoch = 0;
  std::int64_t test_samples = 0;
};

/// What --dry-run shows: schedule, micro-batches, steps, and a row for each stage.
std::string plan_text(const actors::run_summary& plan, const app_options& options, const work_counts& counts);

/// A row for each change of plan.
std::string changes_text(const std::vector<actors::taken_change>& changes);
std::string changes_text(const std::vector<actors::plan_change>& changes);

/// The end of a run: what this leg of it did, test loss and accuracy, samples/s, a row for each stage, hashes, and
/// where the outputs are.
std::string summary_text(const actors::run_summary& summary, const app_options& options);

} // namespace penstock::apps
