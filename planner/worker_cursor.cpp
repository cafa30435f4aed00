// A head, a window of look-ahead, and a credit for each stage.
#include "planner/worker_cursor.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock::planner {

worker_cursor::worker_cursor(const schedule& s, const worker& w) : worker_cursor(s, w, sequence(s, w)) {}

worker_cursor::worker_cursor(const schedule& s, const worker& w, sequence order)
    : at_head_(std::move(order)), window_(static_cast<std::size_t>(s.window)), stashes_weights_(s.stashes_weights) {
  for (const int stage : stages_at(s, w.position))
    stages_.push_back({stage, s.stages[static_cast<std::size_t>(stage)].credit, minibatches_per_update(s, stage),
                       s.is_frozen(stage)});
  if (window_ > 0) {
    beyond_ = at_head_;
    look_ahead();
  }
}

std::size_t worker_cursor::place_of(int stage) const {
  for (std::size_t i = 0; i < stages_.size(); ++i)
    if (stages_[i].stage == stage) return i;
  throw std::logic_error("a worker was asked about stage " + std::to_string(stage) + ", which it does not host");
}

// -- what may begin -----------------------------------------------------------------

block_reason worker_cursor::obstacle(const action& a, const readiness& ready) const {
  switch (a.kind) {
  case action_kind::forward: {
    const auto& h = of(a.stage);
    if (h.in_flight >= h.credit) return block_reason::no_credit;
    if (!ready.has_version(a.stage, a.version)) return block_reason::no_version;
    return ready.has_input(a) ? block_reason::none : block_reason::no_input;
  }
  case action_kind::backward:
  case action_kind::backward_input:
    if (!ready.has_gradient(a)) return block_reason::no_gradient;
    // A stashing schedule's backward holds the version its forward captured.
    return stashes_weights_ || ready.has_version(a.stage, a.version) ? block_reason::none : block_reason::no_version;
  case action_kind::backward_weight: // its own input's part stands before it
  case action_kind::update:
    break;
  }
  return block_reason::none;
}

std::optional<action> worker_cursor::next(const readiness& ready, blocked_action* blocked) const {
  const auto& first = head();
  if (!first) {
    if (blocked) *blocked = {block_reason::finished, {}};
    return std::nullopt;
  }
  if (window_ > 0) return next_in_window(ready, blocked);
  const auto why = obstacle(*first, ready);
  if (why == block_reason::none) return first;
  if (blocked) *blocked = {why, *first};
  return std::nullopt;
}

/// Actions of one lane never overtake one another: a stage's forwards, and its backwards and updates.
std::size_t worker_cursor::lane_of(const action& a) const {
  const auto h = std::find_if(stages_.begin(), stages_.end(), [&](const hosted& x) { return x.stage == a.stage; });
  return 2 * static_cast<std::size_t>(h - stages_.begin()) + (a.kind == action_kind::forward ? 0 : 1);
}

std::optional<action> worker_cursor::next_in_window(const readiness& ready, blocked_action* blocked) const {
  std::vector<bool> passed(2 * stages_.size() + 2);
  for (std::size_t i = 0; i < window_actions_.size(); ++i) {
    const auto& [a, begun] = window_actions_[i];
    if (begun) continue;
    const auto lane = lane_of(a);
    if (passed[lane]) continue;
    const auto why = obstacle(a, ready);
    if (why == block_reason::none) return a;
    if (i == 0 && blocked) *blocked = {why, a};
    passed[lane] = true;
  }
  return std::nullopt;
}

// -- beginning it -------------------------------------------------------------------

void worker_cursor::begin(const action& a) {
  if (window_ > 0) {
    begin_in_window(a);
  } else {
    if (head() != a) throw std::logic_error("began an action outside the window: " + describe(a));
    at_head_.advance();
  }
  if (a.kind == action_kind::update) return;
  auto& h = stages_[place_of(a.stage)];
  if (a.kind == action_kind::forward) {
    if (!h.is_frozen) ++h.in_flight;
    if (h.forwards) h.forwards->advance();
  }
  if (ends_flight(a.kind)) --h.in_flight;
  if (makes_weight_gradient(a.kind) && h.gradients) h.gradients->advance();
}

void worker_cursor::begin_in_window(const action& a) {
  const auto it = std::find_if(window_actions_.begin(), window_actions_.end(),
                               [&](const seen& x) { return !x.begun && x.what == a; });
  if (it == window_actions_.end()) throw std::logic_error("began an action outside the window: " + describe(a));
  it->begun = true;
  pass_begun();
}

void worker_cursor::pass_begun() {
  while (!window_actions_.empty() && window_actions_.front().begun) {
    window_actions_.pop_front();
    at_head_.advance();
  }
  look_ahead();
}

/// Up to the window's end, but not past a place where every lane has an action that has not begun.
void worker_cursor::look_ahead() {
  std::vector<bool> waits(2 * stages_.size() + 2);
  std::size_t lanes = 0;
  const auto note = [&](const action& a) {
    const auto lane = lane_of(a);
    lanes += waits[lane] ? 0 : 1;
    waits[lane] = true;
  };
  for (const auto& x : window_actions_)
    if (!x.begun) note(x.what);
  while (window_actions_.size() <= window_ && lanes < 2 * stages_.size()) {
    const auto a = beyond_.next();
    if (!a) return;
    note(*a);
    window_actions_.push_back({*a});
  }
}

// -- what lies ahead ------------------------------------------------------------------

stage_passes worker_cursor::passes_of(const hosted& h, stage_passes::kind kind) const {
  stage_passes passes(at_head_, h.stage, kind);
  const bool are_forwards = kind == stage_passes::kind::forwards;
  for (const auto& [a, begun] : window_actions_)
    if (begun && a.stage == h.stage && (are_forwards ? a.kind == action_kind::forward : makes_weight_gradient(a.kind)))
      passes.advance();
  return passes;
}

const std::optional<action>& worker_cursor::next_forward(const hosted& h) const {
  if (!h.forwards) h.forwards = passes_of(h, stage_passes::kind::forwards);
  return h.forwards->peek();
}

const std::optional<action>& worker_cursor::next_gradient(const hosted& h) const {
  if (!h.gradients) h.gradients = passes_of(h, stage_passes::kind::weight_gradients);
  return h.gradients->peek();
}

std::int64_t worker_cursor::in_flight(int stage) const {
  return of(stage).in_flight;
}

std::optional<std::int64_t> worker_cursor::oldest_needed(int stage) const {
  if (finished()) return std::nullopt;
  // Versions never fall along a sequence, so the first of a kind is its oldest. Captured ones need no look-up.
  const auto& h = of(stage);
  std::optional<std::int64_t> oldest;
  if (const auto& forward = next_forward(h)) oldest = forward->version;
  if (stashes_weights_) return oldest;
  if (const auto& backward = next_gradient(h))
    oldest = oldest ? std::min(*oldest, backward->version) : backward->version;
  return oldest;
}

bool worker_cursor::has_backward_for(int stage, std::int64_t update) const {
  if (finished()) return false;
  const auto& h = of(stage);
  const auto update_of = [&](const action& a) { return a.minibatch / h.per_update; };
  const auto& next = next_gradient(h);
  if (!next || update_of(*next) > update) return false;
  if (update_of(*next) == update) return true;
  auto ahead = *h.gradients;
  while (ahead.peek() && update_of(*ahead.peek()) < update)
    ahead.advance();
  return ahead.peek() && update_of(*ahead.peek()) == update;
}

// -- an earlier end -------------------------------------------------------------------

void worker_cursor::end_after(std::int64_t minibatches) {
  if (stages_.empty()) return;
  auto shorter = *this;
  shorter.at_head_.end_after(minibatches);
  if (window_ > 0) {
    // An update to which this replica has nothing to add waits for nothing, not even for its minibatch to be admitted.
    std::vector<action> begun;
    for (const auto& [a, is_begun] : window_actions_)
      if (is_begun && (a.kind != action_kind::update || a.minibatch * of(a.stage).per_update < minibatches))
        begun.push_back(a);
    shorter.find_begun(begun);
  }
  for (auto& h : shorter.stages_) { // they may have looked beyond the new end
    h.forwards.reset();
    h.gradients.reset();
  }
  *this = std::move(shorter);
}

/// Looks as far ahead as what was begun there, and marks it.
void worker_cursor::find_begun(const std::vector<action>& begun) {
  window_actions_.clear();
  beyond_ = at_head_;
  auto missing = begun.size();
  while (missing > 0) {
    const auto a = beyond_.next();
    if (!a) throw std::logic_error(generator::begun_beyond_the_end);
    const bool is_begun = std::find(begun.begin(), begun.end(), *a) != begun.end();
    window_actions_.push_back({*a, is_begun});
    missing -= is_begun ? 1 : 0;
  }
  pass_begun(); // what stood before them may be gone
}

bool worker_cursor::append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const {
  for (const auto& h : stages_)
    numbers.push_back(h.in_flight);
  return window_ == 0 && at_head_.append_state(origin, numbers);
}

} // namespace penstock::planner
