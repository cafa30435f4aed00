// The judge of the generated orders: whole lists, written plainly from the definitions of DESIGN section 2.
#pragma once

#include "planner/schedule.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace penstock::planner::testing {

/// What one replica of one stage does from drain to drain. It shares no code with the generators, and holds everything.
class plain_list {
public:
  plain_list(const schedule& s, int stage, int replica)
      : name_(s.name), flushes_(name_ == "model-parallel" || name_ == "data-parallel" || name_ == "gpipe" ||
                                name_ == "1f1b" || name_.starts_with("zb-")),
        replicas_(s.stages[static_cast<std::size_t>(stage)].replicas), stage_(stage),
        delayed_(static_cast<std::size_t>(s.stages[static_cast<std::size_t>(stage)].delayed_weight_gradients)),
        credit_(static_cast<std::size_t>(s.stages[static_cast<std::size_t>(stage)].credit)),
        lag_(static_cast<std::size_t>(s.stages[static_cast<std::size_t>(stage)].update_lag)),
        first_credit_(s.stages[static_cast<std::size_t>(s.frozen_stages)].credit), frozen_(s.frozen_stages) {
    for (std::int64_t b = 0; b < s.minibatches; ++b)
      for (std::int32_t m = 0; m < s.microbatches; ++m)
        if ((b * s.microbatches + m) % replicas_ == replica) dealt_.emplace_back(b, m);
    if (stage_ < frozen_) {
      for (std::size_t item = 0; item < dealt_.size(); ++item)
        add(action_kind::forward, item, 0);
      return;
    }
    const bool grouped = name_.starts_with("pipedream");
    updates_ = grouped ? (s.minibatches + replicas_ - 1) / replicas_ : s.minibatches;
    write();
  }
  const std::vector<action>& actions() const { return actions_; }

private:
  /// The update that takes an item's gradient.
  std::int64_t update_of(std::size_t item) const {
    return name_.starts_with("pipedream") ? dealt_[item].first / replicas_ : dealt_[item].first;
  }

  bool may_forward() const {
    if (forwards_ == dealt_.size()) return false;
    // A flush: all of the minibatches before has gone back, weights' parts too.
    if (flushes_ && dealt_[forwards_].first != dealt_[whole_].first) return false;
    return name_ == "gpipe" || forwards_ < backwards_ + credit_;
  }

  // Just before the first forward that reads it; where none comes, right after the backward as many behind, or the
  // last.
  bool may_update_with_lag() const {
    const auto group = static_cast<std::size_t>(written_);
    const auto reader = group + credit_ + lag_;
    if (reader < dealt_.size()) return forwards_ == reader && may_forward();
    return backwards_ > group + lag_ || backwards_ == dealt_.size();
  }

  bool may_update() const {
    if (written_ == updates_) return false;
    if (lag_ > 0) return may_update_with_lag();
    for (auto item = whole_; item < dealt_.size(); ++item)
      if (update_of(item) <= written_) return false;
    if (name_ != "2bw") return true;
    // The next minibatch's forwards read the version before.
    for (auto item = forwards_; item < dealt_.size(); ++item)
      if (dealt_[item].first <= written_ + 1) return false;
    return true;
  }

  void add(action_kind kind, std::size_t item, std::int64_t version) {
    actions_.push_back({kind, dealt_[item].first, dealt_[item].second, version, stage_});
  }

  void write() {
    for (;;) {
      if (may_update()) {
        actions_.push_back({action_kind::update, written_, 0, written_ + 1, stage_});
        ++written_;
      } else if (whole_ == dealt_.size()) {
        return;
      } else if (backwards_ > whole_ + delayed_) {
        add(action_kind::backward_weight, whole_++, written_);
      } else if (may_forward()) {
        const auto admitted_first = static_cast<std::int64_t>(forwards_) - (first_credit_ - 1);
        read_.push_back(name_ == "pipedream-vertical-sync" ? std::max<std::int64_t>(0, admitted_first) : written_);
        add(action_kind::forward, forwards_++, read_.back());
      } else if (backwards_ == forwards_) {
        add(action_kind::backward_weight, whole_++, written_);
      } else if (name_.starts_with("zb-") && stage_ > frozen_) {
        add(action_kind::backward_input, backwards_++, written_);
      } else {
        ++whole_;
        add(action_kind::backward, backwards_, name_ == "pipedream-naive" ? written_ : read_[backwards_]);
        ++backwards_;
      }
    }
  }

  std::string name_;
  bool flushes_;
  std::int64_t replicas_;
  std::int32_t stage_;
  std::size_t delayed_, credit_, lag_;
  std::int64_t first_credit_; // of the first active stage
  std::int32_t frozen_;
  std::vector<std::pair<std::int64_t, std::int32_t>> dealt_;
  std::int64_t updates_ = 0, written_ = 0;
  std::size_t forwards_ = 0, backwards_ = 0, whole_ = 0; // backwards begun, and with both parts done
  std::vector<std::int64_t> read_;
  std::vector<action> actions_;
};

/// What a worker does under `interleaved`: Megatron-LM's loops for M' = n ceil(M / n) micro-batches, written out, from
/// which those that are not there are taken.
inline std::vector<action> plain_interleaved(const schedule& s, const worker& w) {
  const auto n = positions_of(s), v = s.chunks;
  std::vector<action> actions;
  for (std::int64_t b = 0; b < s.minibatches; ++b) {
    std::vector<std::int32_t> own;
    for (std::int32_t m = 0; m < s.microbatches; ++m)
      if ((b * s.microbatches + m) % s.stages.front().replicas == w.replica) own.push_back(m);
    const auto there = static_cast<int>(own.size());
    const int passes = (there + n - 1) / n * n * v;
    std::vector<int> backwards(static_cast<std::size_t>(v));
    const auto update = [&](int chunk) {
      actions.push_back({action_kind::update, b, 0, b + 1, w.position + chunk * n});
    };
    const auto pass = [&](action_kind kind, int k) {
      const int group = k / (n * v), within = k % (n * v), micro = group * n + within % n;
      const int chunk = kind == action_kind::forward ? within / n : v - 1 - within / n;
      if (micro >= there) return;
      actions.push_back({kind, b, own[static_cast<std::size_t>(micro)], b, w.position + chunk * n});
      if (kind == action_kind::backward && ++backwards[static_cast<std::size_t>(chunk)] == there) update(chunk);
    };
    const int warm_up = std::min(passes, 2 * (n - w.position - 1) + (v - 1) * n);
    for (int k = 0; k < warm_up; ++k)
      pass(action_kind::forward, k);
    for (int k = warm_up; k < passes; ++k) {
      pass(action_kind::forward, k);
      pass(action_kind::backward, k - warm_up);
    }
    for (int k = passes - warm_up; k < passes; ++k)
      pass(action_kind::backward, k);
    for (int chunk = v - 1; chunk >= 0 && there == 0; --chunk)
      update(chunk);
  }
  return actions;
}

} // namespace penstock::planner::testing
