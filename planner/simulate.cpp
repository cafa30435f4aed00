// Plays a schedule's lists under a virtual clock, event by event.
#include "planner/simulate.hpp"

#include "planner/check_schedule.hpp"
#include "planner/playback.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <stdexcept>

namespace penstock::planner {

namespace {

void check_times(const schedule& s, const std::vector<stage_times>& times) {
  if (times.size() != s.stages.size())
    throw std::invalid_argument("times are given for " + std::to_string(times.size()) + " stages, wanted " +
                                std::to_string(s.stages.size()));
  for (std::size_t i = 0; i < times.size(); ++i)
    for (const auto t :
         {times[i].forward, times[i].backward, times[i].update, times[i].send_forward, times[i].send_backward})
      if (!std::isfinite(t) || t < 0)
        throw std::invalid_argument("a time of stage " + std::to_string(i) + " is " + std::to_string(t) +
                                    ", wanted a finite number of at least 0");
}

class simulator {
public:
  simulator(const schedule& s, const std::vector<stage_times>& times)
      : schedule_(s), times_(times), state_(s, s.window), lanes_(static_cast<std::size_t>(state_.lanes())) {
    result_.busy.resize(s.stages.size());
    result_.peak_in_flight.resize(s.stages.size());
  }

  simulation run() {
    start_ready_lanes();
    while (!events_.empty()) {
      const auto e = events_.top();
      events_.pop();
      now_ = e.time;
      if (e.what == event::finished)
        finish(e.lane, e.about);
      else
        deliver(state_.stage(e.lane), e.about);
      start_ready_lanes();
    }
    result_.makespan = now_; // a last gradient goes nowhere, so nothing arrives after the last action
    for (std::size_t i = 0; i < result_.busy.size(); ++i)
      result_.busy[i] /= schedule_.stages[i].replicas;
    return std::move(result_);
  }

private:
  struct event {
    double time = 0;
    std::int64_t order = 0; // of making, so that equal times keep it
    enum : std::uint8_t { finished, arrived } what = finished;
    int lane = 0; // that did `about`
    action about;
    bool operator>(const event& other) const { return time != other.time ? time > other.time : order > other.order; }
  };
  struct lane_state {
    bool is_busy = false;
    std::int64_t in_flight = 0;
  };

  lane_state& lane_of(int lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  const stage_times& times_of(int stage) const { return times_[static_cast<std::size_t>(stage)]; }

  void start_ready_lanes() {
    for (const auto lane : state_.take_woken())
      start_next(lane);
  }

  void start_next(int lane) {
    if (lane_of(lane).is_busy) return;
    if (const auto a = state_.start_next(lane)) occupy(lane, *a);
  }

  void occupy(int lane, const action& a) {
    const auto stage = state_.stage(lane);
    auto duration = times_of(stage).update;
    if (a.kind == action_kind::forward) {
      duration = times_of(stage).forward;
      auto& peak = result_.peak_in_flight[static_cast<std::size_t>(stage)];
      peak = std::max(peak, ++lane_of(lane).in_flight);
    }
    if (a.kind == action_kind::backward) duration = times_of(stage).backward;
    lane_of(lane).is_busy = true;
    result_.busy[static_cast<std::size_t>(stage)] += duration;
    result_.spans.push_back({stage, state_.replica(lane), a, now_, now_ + duration});
    events_.push({now_ + duration, ++made_, event::finished, lane, a});
  }

  void finish(int lane, const action& a) {
    const auto stage = state_.stage(lane);
    lane_of(lane).is_busy = false;
    if (a.kind == action_kind::update) state_.finish_update(lane);
    if (a.kind == action_kind::forward) send(lane, a, times_of(stage).send_forward);
    if (a.kind == action_kind::backward) {
      --lane_of(lane).in_flight;
      // The credit that stage 0 returns carries no tensor.
      send(lane, a, stage == 0 ? 0 : times_of(stage).send_backward);
    }
    start_next(lane);
  }

  void send(int lane, const action& a, double latency) {
    const auto stage = state_.stage(lane);
    const bool is_loss = a.kind == action_kind::forward && static_cast<std::size_t>(stage) + 1 == times_.size();
    if (latency == 0 || is_loss)
      deliver(stage, a);
    else
      events_.push({now_ + latency, ++made_, event::arrived, lane, a});
  }

  void deliver(int stage, const action& a) {
    if (a.kind == action_kind::forward)
      state_.deliver_activation(stage, a);
    else
      state_.deliver_gradient(stage, a);
  }

  const schedule& schedule_;
  const std::vector<stage_times>& times_;
  playback state_;
  std::vector<lane_state> lanes_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::int64_t made_ = 0;
  double now_ = 0;
  simulation result_;
};

} // namespace

double simulation::bubble() const {
  if (makespan <= 0 || busy.empty()) return 0;
  return 1 - std::accumulate(busy.begin(), busy.end(), 0.0) / static_cast<double>(busy.size()) / makespan;
}

simulation simulate(const schedule& s, const std::vector<stage_times>& times) {
  if (const auto fault = check_schedule(s)) throw std::logic_error(*fault);
  check_times(s, times);
  return simulator(s, times).run();
}

} // namespace penstock::planner
