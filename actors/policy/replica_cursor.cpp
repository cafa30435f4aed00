// The list, a head, and a window of look-ahead.
#include "actors/policy/replica_cursor.hpp"

#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::actors {

using planner::action;
using planner::action_kind;

replica_cursor::replica_cursor(const planner::replica_list* list, std::int64_t credit, int window, bool stashes_weights)
    : list_(list), credit_(credit), window_(static_cast<std::size_t>(window)), stashes_weights_(stashes_weights) {}

bool replica_cursor::is_done(std::size_t position) const {
  if (position < head_) return true;
  return position - head_ < ahead_.size() && ahead_[position - head_];
}

block_reason replica_cursor::obstacle(const action& a, const replica_readiness& ready) const {
  switch (a.kind) {
  case action_kind::forward:
    if (in_flight_ >= credit_) return block_reason::no_credit;
    if (!ready.has_version(a.version)) return block_reason::no_version;
    return ready.has_input(a.minibatch, a.microbatch) ? block_reason::none : block_reason::no_input;
  case action_kind::backward:
  case action_kind::backward_input:
    if (!ready.has_gradient(a.minibatch, a.microbatch)) return block_reason::no_gradient;
    // A stashing schedule's backward holds the version its forward captured.
    return stashes_weights_ || ready.has_version(a.version) ? block_reason::none : block_reason::no_version;
  default:
    return block_reason::none;
  }
}

std::optional<action> replica_cursor::next(const replica_readiness& ready, blocked_action* blocked) const {
  if (finished()) {
    if (blocked) *blocked = {block_reason::finished, {}};
    return std::nullopt;
  }
  bool forward_passed = false;
  bool backward_passed = false;
  const auto end = std::min(list_->actions.size(), head_ + window_ + 1);
  for (auto i = head_; i < end; ++i) {
    if (is_done(i)) continue;
    const auto& a = list_->actions[i];
    auto& passed = a.kind == action_kind::forward ? forward_passed : backward_passed;
    if (!passed) {
      const auto why = obstacle(a, ready);
      if (why == block_reason::none) return a;
      if (i == head_ && blocked) *blocked = {why, a};
    }
    passed = true;
  }
  return std::nullopt;
}

void replica_cursor::begin(const action& a) {
  auto i = head_;
  while (i < list_->actions.size() && (is_done(i) || list_->actions[i] != a))
    ++i;
  check(i < list_->actions.size() && i - head_ <= window_, "began an action outside the window");
  if (a.kind == action_kind::forward) ++in_flight_;
  if (a.kind == action_kind::backward) --in_flight_;
  if (ahead_.size() <= i - head_) ahead_.resize(i - head_ + 1, false);
  ahead_[i - head_] = true;
  pass_begun();
}

void replica_cursor::pass_begun() {
  while (!ahead_.empty() && ahead_.front()) {
    ahead_.pop_front();
    ++head_;
  }
}

std::optional<std::int64_t> replica_cursor::oldest_needed() const {
  if (list_ == nullptr) return std::nullopt;
  bool forward_seen = false;
  bool backward_seen = stashes_weights_; // captured versions need no look-up
  std::optional<std::int64_t> oldest;
  for (auto i = head_; i < list_->actions.size() && !(forward_seen && backward_seen); ++i) {
    if (is_done(i)) continue;
    const auto& a = list_->actions[i];
    bool* seen = a.kind == action_kind::forward    ? &forward_seen
                 : a.kind == action_kind::backward ? &backward_seen
                                                   : nullptr;
    if (seen == nullptr || *seen) continue; // versions never fall along a list, so the first of a kind is its oldest
    *seen = true;
    oldest = oldest ? std::min(*oldest, a.version) : a.version;
  }
  return oldest;
}

bool replica_cursor::has_backward_for(std::int64_t update,
                                      const std::function<std::int64_t(const action&)>& update_of) const {
  for (auto i = head_; i < list_->actions.size(); ++i) {
    if (is_done(i)) continue;
    const auto& a = list_->actions[i];
    if (a.kind == action_kind::backward && update_of(a) == update) return true;
    if (a.kind == action_kind::update && a.minibatch == update) return false;
  }
  return false;
}

void replica_cursor::replace(const planner::replica_list* shorter) {
  const auto& now = list_->actions;
  const auto& then = shorter->actions;
  const auto updates =
      std::count_if(then.begin(), then.end(), [](const action& a) { return a.kind == action_kind::update; });
  std::size_t same = 0;
  while (same < std::min(head_, then.size()) && now[same] == then[same])
    ++same;
  std::deque<bool> moved;
  for (auto i = same; i < head_ + ahead_.size(); ++i) {
    if (!is_done(i)) continue;
    const auto it = std::find(then.begin() + static_cast<std::ptrdiff_t>(same), then.end(), now[i]);
    // An update to which this replica has nothing to add waits for nothing, not even for its minibatch to be admitted.
    if (it == then.end() && now[i].kind == action_kind::update && now[i].minibatch >= updates) continue;
    check(it != then.end(), "the shorter schedule lacks an action that was already begun");
    const auto offset = static_cast<std::size_t>(it - then.begin()) - same;
    if (moved.size() <= offset) moved.resize(offset + 1, false);
    moved[offset] = true;
  }
  list_ = shorter;
  head_ = same;
  ahead_ = std::move(moved);
  pass_begun(); // what stood before them may be gone
}

std::string to_string(const action& a) {
  static const char* const names[] = {"forward", "backward", "backward_input", "backward_weight", "update"};
  std::string text = names[static_cast<std::size_t>(a.kind)];
  text += (a.kind == action_kind::update ? " " : " of minibatch ") + std::to_string(a.minibatch);
  if (a.kind != action_kind::update) text += " micro-batch " + std::to_string(a.microbatch);
  return text;
}

} // namespace penstock::actors
