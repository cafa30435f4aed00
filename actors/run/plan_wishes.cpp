// The queue of wishes, and the promise that none stays without an answer.
#include "actors/run/plan_wishes.hpp"

#include "kernels/check.hpp"

#include <utility>

namespace penstock::actors {

namespace {

constexpr const char* run_is_over = "the run has ended before it could take place";

} // namespace

plan_wish::plan_wish(planner::plan_ptr plan, std::optional<std::int64_t> step, answer tell)
    : plan_(std::move(plan)), step_(step), tell_(std::move(tell)) {
  check(plan_ != nullptr, "a wish for no plan");
}

plan_wish::plan_wish(plan_wish&& other) noexcept
    : plan_(std::move(other.plan_)), step_(other.step_), tell_(std::exchange(other.tell_, nullptr)) {}

plan_wish& plan_wish::operator=(plan_wish&& other) noexcept {
  if (this == &other) return *this;
  settle(run_is_over);
  plan_ = std::move(other.plan_);
  step_ = other.step_;
  tell_ = std::exchange(other.tell_, nullptr);
  return *this;
}

plan_wish::~plan_wish() {
  settle(run_is_over);
}

void plan_wish::took_place() {
  settle("");
}

void plan_wish::refuse(const std::string& why) {
  check(!why.empty(), "a refusal that says nothing would pass for a plan that took over");
  settle(why);
}

// Whoever wishes is not the run's concern: what its answer throws ends nothing here.
void plan_wish::settle(const std::string& refusal) noexcept {
  const auto tell = std::exchange(tell_, nullptr);
  if (!tell) return;
  try {
    tell(refusal);
  } catch (...) {
  }
}

plan_wishes::~plan_wishes() {
  close(run_is_over);
}

void plan_wishes::post(planner::plan_ptr settled, std::optional<std::int64_t> step, plan_wish::answer tell) {
  plan_wish wish(std::move(settled), step, std::move(tell));
  std::unique_lock lock(mutex_);
  if (closed_) {
    const auto why = *closed_;
    lock.unlock();
    return wish.refuse(why);
  }
  wishes_.push_back(std::move(wish));
  waiting_.store(static_cast<int>(wishes_.size()), std::memory_order_release);
}

std::vector<plan_wish> plan_wishes::take() {
  const std::lock_guard lock(mutex_);
  waiting_.store(0, std::memory_order_release);
  return std::exchange(wishes_, {});
}

void plan_wishes::close(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) closed_ = why;
  }
  for (auto& wish : take())
    wish.refuse(why);
}

} // namespace penstock::actors
