// One thing tried: a partition under a schedule with its M and credits, as a plan with its prediction.
#pragma once

#include "planner/explore/explore.hpp"
#include "planner/explore/settings.hpp"
#include "planner/search/candidate.hpp"
#include "planner/search/layer_graph.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::planner {

/// What all trials of one exploration share.
struct exploration {
  const profile& model;
  const cluster& machines;
  const layer_graph& graph;
  std::int64_t batch = 1;
  int optimizer_copies = 1;
  std::int64_t last_batch = 0;
  std::int64_t ahead = 0;
};

/// True where every micro-batch of the minibatch and of an epoch's last one has the samples that the model wants.
bool trains_on(const profile& p, std::int64_t batch, std::int64_t last_batch, std::int64_t microbatches);

/// A partition that a search found for a setting.
struct proposal {
  setting how;
  candidate what;
  double step_seconds = 0; ///< of a minibatch, as the search's cost model has it
};

struct trial {
  plan made; ///< with its prediction, where one could be made
  std::string origin;
  int devices = 0;
  bool synchronous = false;
  double peak_bytes = 0;    ///< of the fullest device
  double missing_bytes = 0; ///< by which the worst stage exceeds its device's memory; 0: it fits
  std::string refused;      ///< one line: the schedules' rules, the static checker, or memory; "" if it runs
  std::string parts;        ///< of those that run: a group of layers that the model keeps together, as parted_group()

  bool runs() const { return refused.empty(); }
  bool keeps_hints() const { return parts.empty(); }
  double step_seconds() const { return made.predicted ? made.predicted->step_seconds : 0; }
};

/// "1.2 GB", decimal units.
std::string bytes_text(double bytes);

/// Stages at the front that are wholly frozen in the profile.
int frozen_stages_of(const exploration& e, const candidate& what);

/// The plan in the runtime's terms, without a prediction. `credits` one per stage.
plan plan_of(const exploration& e, const candidate& what, const std::string& schedule, int microbatches,
             const std::vector<std::int64_t>& credits);

/// Checks and simulates; memory is held against the devices' exactly.
trial try_plan(const exploration& e, plan made, const std::string& origin);

/// Holds what a plan was predicted to need against its devices' memory.
void weigh(trial& t, const cluster& c);

/// Seconds of the slowest cut's transfer of one micro-batch over `period`.
double link_periods_of(const exploration& e, const candidate& what, int microbatches, double period);

} // namespace penstock::planner
