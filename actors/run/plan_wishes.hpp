// Changes of plan that are asked of a run while it trains.
#pragma once

#include "planner/plan/execution_plan.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace penstock::actors {

/// One change that is wished for. Whoever holds it answers it, once; one that is dropped is refused. Moved, not copied.
class plan_wish {
public:
  /// "": the plan has taken over; else why it has not.
  using answer = std::function<void(const std::string& refusal)>;

  plan_wish(planner::plan_ptr plan, std::optional<std::int64_t> step, answer tell);
  plan_wish(plan_wish&& other) noexcept;
  plan_wish& operator=(plan_wish&& other) noexcept;
  ~plan_wish();

  const planner::plan_ptr& plan() const { return plan_; } ///< settled for the job
  /// Minibatches of the whole run after which it is to take over; nothing: the next drain, made as soon as it can be.
  std::optional<std::int64_t> step() const { return step_; }

  void took_place();
  void refuse(const std::string& why);

private:
  void settle(const std::string& refusal) noexcept;

  planner::plan_ptr plan_;
  std::optional<std::int64_t> step_;
  answer tell_; ///< empty once it has been answered
};

/// Between those who wish, on any thread, and the run, which looks now and then. Every wish is answered, on the thread
/// of whoever answers it: by the run, or with a refusal when the run has ended.
class plan_wishes {
public:
  plan_wishes() = default;
  ~plan_wishes();
  plan_wishes(const plan_wishes&) = delete;
  plan_wishes& operator=(const plan_wishes&) = delete;

  void post(planner::plan_ptr settled, std::optional<std::int64_t> step, plan_wish::answer tell);

  /// Cheap enough to be asked before every minibatch.
  bool has_any() const { return waiting_.load(std::memory_order_acquire) > 0; }
  /// All that have come since the last time, in order. They are the caller's to answer.
  std::vector<plan_wish> take();

  /// The run takes no more: refuses what waits and what comes.
  void close(const std::string& why);

private:
  std::atomic<int> waiting_{0};
  std::mutex mutex_; // of what follows; not held while a wish is answered
  std::vector<plan_wish> wishes_;
  std::optional<std::string> closed_;
};

} // namespace penstock::actors
