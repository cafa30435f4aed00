// What was predicted of a run beside what it did.
#pragma once

#include "actors/trainer.hpp"
#include "planner/plan/plan.hpp"

namespace penstock::apps {

/// A table, one row a stage and one for the step: predicted, measured, and their ratio. Measured times are medians; the
/// step's is the mean of steady state. "" where the run had other stages than the prediction.
std::string prediction_text(const planner::prediction& predicted, const actors::run_summary& measured);

} // namespace penstock::apps
