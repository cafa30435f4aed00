// Rank 0 says which contender is next; all ranks run it together.
#include "apps/runner/plan_trials.hpp"

#include "actors/profiler/time_steps.hpp"
#include "apps/runner/app_job.hpp"
#include "apps/runner/apply_plan.hpp"
#include "kernels/check.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace penstock::apps {

namespace {

using clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

// How long all of it may take, and how long one turn.
struct limits {
  int rounds = 3;
  double turn_seconds = 0.5;
  double seconds = 60;
};

limits limits_of(double step_seconds) {
  limits l;
  l.rounds = step_seconds < 0.1 ? 5 : 3;
  l.turn_seconds = std::clamp(8 * step_seconds, 0.25, 0.75);
  l.seconds = std::clamp(100 * step_seconds, 30.0, 120.0);
  return l;
}

double predicted_seconds(const std::vector<contender>& all) {
  double least = HUGE_VAL;
  for (const auto& c : all)
    if (c.plan.predicted) least = std::min(least, c.plan.predicted->step_seconds);
  return std::isfinite(least) ? least : 0.1;
}

class trials {
public:
  trials(std::vector<contender>& all, const app_options& options, const std::shared_ptr<const model>& net,
         const app_job* job, part_teller& teller)
      : all_(all), options_(options), net_(net), job_(job), teller_(teller) {}

  void share() {
    if (job_ == nullptr) return;
    json plans = json::array();
    for (const auto& c : all_)
      plans.push_back(planner::to_json(c.plan));
    const auto text = broadcast("plans to try", job_->is_first() ? plans.dump() : "");
    if (job_->is_first()) return;
    all_.clear();
    for (const auto& plan : json::parse(text))
      all_.push_back({.plan = planner::plan_from_json(plan.get<std::string>(), "a plan of rank 0")});
  }

  void lead() {
    if (all_.size() < 2) return;
    limits_ = limits_of(predicted_seconds(all_));
    const auto begin = clock::now();
    const auto is_time_up = [&] { return seconds_since(begin) > limits_.seconds; };
    for (int round = 0; round < limits_.rounds && !(round > 0 && (is_time_up() || left() < 2)); ++round) {
      for (std::size_t i = 0; i < all_.size(); ++i) {
        if (all_[i].is_out || (round > 0 && is_time_up())) continue;
        if (round == 1 && i == 0) reconsider_limits();
        if (job_ != nullptr) broadcast(turn_name(), json({i, limits_.turn_seconds}).dump());
        all_[i].seconds.push_back(run(i, fmt::format("round {} of {}", round + 1, limits_.rounds)));
      }
      drop_slower(all_);
    }
    if (job_ != nullptr) broadcast(turn_name(), json({-1, 0.0}).dump());
  }

  void follow() {
    while (all_.size() > 1) {
      const auto turn = json::parse(broadcast(turn_name(), ""));
      if (turn.at(0).get<int>() < 0) return;
      limits_.turn_seconds = turn.at(1);
      run(turn.at(0), "");
    }
  }

private:
  std::string turn_name() const { return "trial " + std::to_string(turn_); }

  std::string broadcast(const std::string& name, const std::string& text) const {
    return job_->ranks().control.broadcast(name, text, job_->ranks().patience);
  }

  std::size_t left() const {
    return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), [](const auto& c) { return !c.is_out; }));
  }

  // A prediction may be far off; now the length of a step is known.
  void reconsider_limits() {
    double least = HUGE_VAL;
    for (const auto& c : all_)
      least = std::min(least, c.seconds.front());
    const int rounds = limits_.rounds;
    limits_ = limits_of(least);
    limits_.rounds = std::min(limits_.rounds, rounds);
  }

  double run(std::size_t index, const std::string& round) {
    const auto& plan = all_.at(index).plan;
    const auto fitted = fit_plan(plan, net_, 0);
    const auto settled = actors::settle_plan(fitted.plan, *fitted.net, place_in(job_));
    if (!teller_.at("trying " + std::to_string(all_.size()) + " plans, " + round, planner::describe_stages(plan)))
      throw error("the plans were not tried: asked to stop");
    const actors::timing_options how{.seconds = limits_.turn_seconds,
                                     .least_steps = 2,
                                     .extents = actors::mean_extents(options_.plan.shapes),
                                     .number = turn_++,
                                     .should_stop = [this] { return !teller_.goes_on(); }};
    const auto* ranks = job_ != nullptr ? &job_->ranks() : nullptr;
    const auto seconds = actors::time_steps(settled, options_.run, fitted.net, ranks, how);
    // Nobody begins the next one while another still listens to this one's messages.
    if (ranks != nullptr) ranks->control.all_gather(turn_name() + " is next", "", ranks->patience);
    return seconds;
  }

  std::vector<contender>& all_;
  const app_options& options_;
  const std::shared_ptr<const model>& net_;
  const app_job* job_;
  part_teller& teller_;
  limits limits_;
  std::int64_t turn_ = 0;
};

} // namespace

double contender::median() const {
  if (seconds.empty()) return 0;
  auto sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const auto middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

int fastest_of(const std::vector<contender>& all) {
  double least = HUGE_VAL;
  for (const auto& c : all)
    if (!c.seconds.empty()) least = std::min(least, c.median());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].seconds.empty() && all[i].median() <= least * (1 + trial_tie)) return static_cast<int>(i);
  return -1;
}

int most_cores(const std::vector<contender>& all) {
  int most = 1;
  for (const auto& c : all) {
    most = std::max(most, static_cast<int>(workers_of(c.plan)) * std::max(c.plan.threads, 1));
  }
  return most;
}

void drop_slower(std::vector<contender>& all) {
  const contender* leader = nullptr;
  for (const auto& c : all)
    if (!c.is_out && !c.seconds.empty() && (leader == nullptr || c.median() < leader->median())) leader = &c;
  if (leader == nullptr) return;
  const auto worst = *std::max_element(leader->seconds.begin(), leader->seconds.end());
  for (auto& c : all) {
    if (&c == leader || c.seconds.empty()) continue;
    const auto best = *std::min_element(c.seconds.begin(), c.seconds.end());
    const auto rounds = c.seconds.size();
    if (best > leader->median() * 2 * most_cores(all)) continue;
    if (best > worst * (rounds > 3 ? 1.1 : rounds > 2 ? 1.25 : rounds > 1 ? 2 : 10)) c.is_out = true;
  }
}

void try_contenders(std::vector<contender>& all, const app_options& options, const std::shared_ptr<const model>& net,
                    const app_job* job, part_teller& teller) {
  trials t(all, options, net, job, teller);
  t.share();
  if (job == nullptr || job->is_first())
    t.lead();
  else
    t.follow();
}

} // namespace penstock::apps
