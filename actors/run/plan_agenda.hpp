// The changes of plan that a run has before it: those it was started with, and those that are wished for on the way.
#pragma once

#include "actors/ranks/job.hpp"
#include "actors/run/plan_change.hpp"
#include "actors/run_control.hpp"
#include "kernels/model.hpp"

#include <map>
#include <vector>

namespace penstock::actors {

/// The same on every rank of a job; the wishes themselves are rank 0's.
class plan_agenda {
public:
  /// `given` by ascending step. All are moved up to the next multiple of so many minibatches (drain_plan::multiple).
  explicit plan_agenda(std::vector<plan_change> given, int multiple = 1)
      : changes_(std::move(given)), multiple_(multiple) {
    for (auto& c : changes_)
      move_up(c.step);
  }
  ~plan_agenda();
  plan_agenda(const plan_agenda&) = delete;
  plan_agenda& operator=(const plan_agenda&) = delete;

  /// What a resumed run has behind it.
  void forget_until(std::int64_t step);
  /// At a drain after `done` of `total` minibatches: rank 0 takes what is wished for, refuses what cannot be (a step
  /// that has passed or is not before the end, one that has a change), and all ranks hear of the rest.
  void take_wishes(plan_wishes& wishes, std::int64_t done, std::int64_t total, const model& net, const job* ranks);

  /// Where the next one wants a drain; `otherwise` where that comes first.
  std::int64_t next_drain(std::int64_t otherwise) const;
  bool has_one_after(std::int64_t step) const { return !changes_.empty() && changes_.front().step == step; }
  /// Whether one was moved up.
  bool has_moved() const { return moved_; }
  const plan_change& first() const { return changes_.front(); }
  /// The first of them, off the agenda.
  plan_change take();
  /// What became of the one that was taken: "" or why the plan stays.
  void answer(const std::string& refusal);

private:
  void move_up(std::int64_t& step) {
    const auto over = step % multiple_;
    moved_ = moved_ || over != 0;
    if (over != 0) step += multiple_ - over;
  }
  std::vector<plan_change> changes_;
  std::int64_t multiple_;
  bool moved_ = false;
  std::map<std::int64_t, plan_wish> wished_; // by step, on rank 0
  std::int64_t taken_ = -1;
  std::int64_t rounds_ = 0;
};

} // namespace penstock::actors
