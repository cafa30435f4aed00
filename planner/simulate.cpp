// A schedule under a virtual clock: the machine without links or memory.
#include "planner/simulate.hpp"

#include "planner/check_schedule.hpp"
#include "planner/machine_player.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace penstock::planner {

namespace {

void check_times(const schedule& s, const std::vector<stage_times>& times) {
  if (times.size() != s.stages.size())
    throw std::invalid_argument("times are given for " + std::to_string(times.size()) + " stages, wanted " +
                                std::to_string(s.stages.size()));
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (std::isnan(times[i].weight) || times[i].weight > times[i].backward)
      throw std::invalid_argument("the weights' part of stage " + std::to_string(i) + "'s backward takes " +
                                  std::to_string(times[i].weight) + ", wanted at most the whole, " +
                                  std::to_string(times[i].backward));
    for (const auto t :
         {times[i].forward, times[i].backward, times[i].update, times[i].send_forward, times[i].send_backward})
      if (!std::isfinite(t) || t < 0)
        throw std::invalid_argument("a time of stage " + std::to_string(i) + " is " + std::to_string(t) +
                                    ", wanted a finite number of at least 0");
  }
}

/// A device for every worker, and messages that take their time without holding anything.
machine machine_of(const schedule& s, const std::vector<stage_times>& times) {
  machine m;
  int devices = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    machine_stage stage;
    if (const auto position = static_cast<std::size_t>(position_of(s, static_cast<int>(i))); position < i)
      stage.devices = m.stages[position].devices;
    else
      for (int r = 0; r < s.stages[i].replicas; ++r)
        stage.devices.push_back(devices++);
    stage.forward_seconds = {times[i].forward};
    stage.backward_seconds = {times[i].backward};
    if (times[i].weight >= 0) stage.weight_seconds = {times[i].weight};
    stage.update_seconds = times[i].update;
    stage.activation_delay_s = times[i].send_forward;
    stage.gradient_delay_s = times[i].send_backward;
    m.stages.push_back(std::move(stage));
  }
  return m;
}

} // namespace

double simulation::bubble() const {
  if (makespan <= 0 || busy.empty()) return 0;
  const auto positions = static_cast<double>(busy.size()) / chunks;
  return 1 - std::accumulate(busy.begin(), busy.end(), 0.0) / positions / makespan;
}

simulation simulate(const schedule& s, const std::vector<stage_times>& times) {
  if (const auto fault = check_schedule(s)) throw std::logic_error(*fault);
  check_times(s, times);
  const auto m = machine_of(s, times);
  return machine_player(s, m, {}).run();
}

} // namespace penstock::planner
