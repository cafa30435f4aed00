// Makes the lists of every schedule: one greedy rule, steered by the preset's flags.
#include "planner/presets.hpp"
#include "planner/schedule.hpp"

#include <algorithm>

namespace penstock::planner {

namespace {

/// Writes the list of one replica. Forward comes before backward while the credit lasts, which gives K forwards and
/// then strict alternation; an update follows as soon as its rule allows. Every choice looks only at what lies behind
/// and at the minibatch of the next forward, hence a list for fewer minibatches is a prefix.
class list_writer {
public:
  list_writer(const schedule& s, const preset& p, std::size_t stage, int replica)
      : p_(p), microbatches_(s.microbatches), replicas_(s.stages[stage].replicas), replica_(replica),
        credit_(s.stages[stage].credit), source_credit_per_replica_(s.stages.front().credit) {
    const auto all = s.minibatches * s.microbatches;
    count_ = all > replica ? (all - replica + replicas_ - 1) / replicas_ : 0;
    const bool grouped = p.unit == update_unit::replica_group;
    updates_ = grouped ? (s.minibatches + replicas_ - 1) / replicas_ : s.minibatches;
  }

  replica_list write() {
    actions_.reserve(static_cast<std::size_t>(2 * count_ + updates_));
    versions_.reserve(static_cast<std::size_t>(count_));
    add_due_updates();
    while (backwards_ < count_) {
      if (may_forward())
        add_forward();
      else
        add_backward();
      add_due_updates();
    }
    return {std::move(actions_)};
  }

private:
  /// Minibatch and micro-batch of the replica's item `index`, dealt in turn by the running number.
  std::int64_t running(std::int64_t index) const { return replica_ + index * replicas_; }
  std::int64_t minibatch(std::int64_t index) const { return running(index) / microbatches_; }
  std::int32_t microbatch(std::int64_t index) const {
    return static_cast<std::int32_t>(running(index) % microbatches_);
  }
  std::int64_t update_of(std::int64_t index) const {
    return p_.unit == update_unit::replica_group ? index : minibatch(index);
  }

  bool may_forward() const {
    if (forwards_ == count_) return false;
    if (p_.flush == flush_point::minibatch && minibatch(forwards_) != minibatch(backwards_)) return false;
    return p_.order == action_order::all_forwards_first || forwards_ - backwards_ < credit_;
  }

  void add_forward() {
    auto version = written_;
    // Stage 0 of equal replica counts has done this many updates before its own forward of the minibatch.
    if (p_.versions == version_rule::vertical)
      version = std::max<std::int64_t>(0, forwards_ - (source_credit_per_replica_ - 1));
    versions_.push_back(version);
    actions_.push_back({action_kind::forward, minibatch(forwards_), microbatch(forwards_), version});
    ++forwards_;
  }

  void add_backward() {
    const auto stashed = versions_[static_cast<std::size_t>(backwards_)];
    const auto version = p_.versions == version_rule::newest_for_backward ? written_ : stashed;
    actions_.push_back({action_kind::backward, minibatch(backwards_), microbatch(backwards_), version});
    ++backwards_;
  }

  bool next_update_is_due() const {
    if (written_ == updates_) return false;
    if (backwards_ < count_ && update_of(backwards_) <= written_) return false;
    const bool waits_for_next = p_.unit == update_unit::minibatch_after_next;
    return !waits_for_next || forwards_ == count_ || minibatch(forwards_) > written_ + 1;
  }

  void add_due_updates() {
    for (; next_update_is_due(); ++written_)
      actions_.push_back({action_kind::update, written_, 0, written_ + 1});
  }

  const preset& p_;
  std::int64_t microbatches_, replicas_, replica_, credit_, source_credit_per_replica_;
  std::int64_t count_ = 0;   // micro-batches dealt to this replica
  std::int64_t updates_ = 0; // of the whole list
  std::int64_t forwards_ = 0, backwards_ = 0, written_ = 0;
  std::vector<std::int64_t> versions_; // read by each forward
  std::vector<action> actions_;
};

} // namespace

schedule make_schedule(const schedule_request& request) {
  auto s = resolve_schedule(request);
  const auto& p = find_preset(request.name);
  for (std::size_t stage = 0; stage < s.stages.size(); ++stage)
    for (int replica = 0; replica < s.stages[stage].replicas; ++replica)
      s.stages[stage].lists.push_back(list_writer(s, p, stage, replica).write());
  return s;
}

} // namespace penstock::planner
