// Makes the order of a stage's schedules: one greedy rule, steered by the preset's flags.
#include "planner/dealt_microbatches.hpp"
#include "planner/generator.hpp"
#include "planner/interleaved.hpp"
#include "planner/presets.hpp"
#include "planner/split_backward_order.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace penstock::planner {

namespace {

/// Versions that forwards in flight read, oldest first; equal neighbours are kept as one run.
class version_queue {
public:
  void push(std::int64_t version) {
    if (first_ < runs_.size() && runs_.back().version == version) {
      ++runs_.back().count;
      return;
    }
    if (2 * first_ > runs_.size()) { // seldom enough that a push costs the same on average, and the memory is used anew
      runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    runs_.push_back({version, 1});
  }
  void pop() {
    if (--runs_[first_].count == 0) ++first_;
  }
  std::int64_t front() const { return runs_[first_].version; }
  void append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const {
    for (auto i = first_; i < runs_.size(); ++i)
      numbers.insert(numbers.end(), {runs_[i].version - origin, runs_[i].count});
  }

private:
  struct run {
    std::int64_t version = 0;
    std::int64_t count = 0;
  };
  std::vector<run> runs_;
  std::size_t first_ = 0;
};

/// The order of one replica of one stage. Forward comes before backward while the credit lasts, which gives K forwards
/// and then strict alternation; an update follows as soon as its rule allows. Every choice looks only at what lies
/// behind and at the minibatch of the next forward, hence the order for fewer minibatches is a prefix.
class greedy_order final : public generator {
public:
  greedy_order(const schedule& s, const preset& p, int stage, int replica)
      : p_(p), stage_(stage), dealt_(s, stage, replica),
        credit_(std::max<std::int64_t>(1, s.stages[static_cast<std::size_t>(stage)].credit)),
        lag_(s.stages[static_cast<std::size_t>(stage)].update_lag),
        source_credit_per_replica_(s.first_active().credit) {
    next_forward_ = next_backward_ = dealt_.first();
    set_end(s.minibatches);
  }

  std::unique_ptr<generator> clone() const override { return std::make_unique<greedy_order>(*this); }

  std::optional<action> peek() const override {
    if (choice_ == choice::nothing) return std::nullopt;
    if (choice_ == choice::update) return update_action(stage_, written_);
    if (choice_ == choice::forward) return of(action_kind::forward, next_forward_, forward_version());
    const auto version = p_.versions == version_rule::newest_for_backward ? written_ : versions_.front();
    return of(action_kind::backward, next_backward_, version);
  }

  void advance() override {
    if (choice_ == choice::update) {
      ++written_;
    } else if (choice_ == choice::forward) {
      versions_.push(forward_version());
      dealt_.pass(next_forward_);
    } else {
      versions_.pop();
      dealt_.pass(next_backward_);
    }
    choose();
  }

  void end_after(std::int64_t minibatches) override {
    if (minibatches >= minibatches_) return;
    if (next_forward_.past > dealt_.among_first(minibatches)) throw std::logic_error(begun_beyond_the_end);
    set_end(minibatches);
  }

  bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const override {
    if (!dealt_.deals_anew_at(origin)) return false;
    const auto dealt = dealt_.among_first(origin);
    const auto updated = is_grouped() ? dealt : origin;
    numbers.insert(numbers.end(), {next_forward_.past - dealt, next_backward_.past - dealt, written_ - updated});
    versions_.append_state(updated, numbers);
    // Until the first active stage has filled the pipeline, versions do not grow with the minibatches.
    if (p_.versions == version_rule::vertical)
      numbers.push_back(std::min<std::int64_t>(0, next_forward_.past - (source_credit_per_replica_ - 1)));
    return true;
  }

private:
  enum class choice : std::uint8_t { nothing, update, forward, backward };

  bool is_grouped() const { return p_.unit == update_unit::replica_group; }
  using turn = dealt_microbatches::turn;
  action of(action_kind kind, const turn& i, std::int64_t version) const {
    return {kind, i.minibatch, static_cast<std::int32_t>(i.microbatch), version, stage_};
  }

  void set_end(std::int64_t minibatches) {
    minibatches_ = minibatches;
    count_ = dealt_.among_first(minibatches);
    updates_ = is_grouped() ? (minibatches + dealt_.replicas() - 1) / dealt_.replicas() : minibatches;
    choose();
  }

  void choose() {
    if (next_update_is_due())
      choice_ = choice::update;
    else if (next_backward_.past == count_)
      choice_ = choice::nothing;
    else
      choice_ = may_forward() ? choice::forward : choice::backward;
  }

  bool may_forward() const {
    if (next_forward_.past == count_) return false;
    if (p_.flush == flush_point::minibatch && next_forward_.minibatch != next_backward_.minibatch) return false;
    return p_.order == action_order::all_forwards_first || next_forward_.past - next_backward_.past < credit_;
  }

  std::int64_t forward_version() const {
    // The first active stage of equal replica counts has done so many updates before its forward of the minibatch.
    if (p_.versions == version_rule::vertical)
      return std::max<std::int64_t>(0, next_forward_.past - (source_credit_per_replica_ - 1));
    return written_;
  }

  // With a lag d the first forward that reads version g + 1 is the replica's number g + K + d, which comes right after
  // its backward g + d.
  bool next_update_is_due() const {
    if (written_ >= updates_) return false; // more were written where the end has moved
    if (next_backward_.past < count_ &&
        (is_grouped() ? next_backward_.past - lag_ : next_backward_.minibatch) <= written_)
      return false;
    const bool waits_for_next = p_.unit == update_unit::minibatch_after_next;
    return !waits_for_next || next_forward_.past == count_ || next_forward_.minibatch > written_ + 1;
  }

  const preset& p_; // of the table, which lives for ever
  std::int32_t stage_;
  dealt_microbatches dealt_;
  std::int64_t credit_, lag_, source_credit_per_replica_;
  std::int64_t minibatches_ = 0;
  std::int64_t count_ = 0;   // micro-batches dealt to this replica
  std::int64_t updates_ = 0; // of the whole stretch
  std::int64_t written_ = 0;
  turn next_forward_, next_backward_;
  version_queue versions_; // read by each forward in flight
  choice choice_ = choice::nothing;
};

/// Forwards alone, of weights that stay as they are.
class frozen_order final : public generator {
public:
  frozen_order(const schedule& s, int stage, int replica)
      : stage_(stage), dealt_(s, stage, replica), minibatches_(s.minibatches),
        count_(dealt_.among_first(s.minibatches)), next_(dealt_.first()) {}

  std::unique_ptr<generator> clone() const override { return std::make_unique<frozen_order>(*this); }
  std::optional<action> peek() const override {
    if (next_.past == count_) return std::nullopt;
    return action{action_kind::forward, next_.minibatch, static_cast<std::int32_t>(next_.microbatch), 0, stage_};
  }
  void advance() override { dealt_.pass(next_); }
  void end_after(std::int64_t minibatches) override {
    if (minibatches >= minibatches_) return;
    if (next_.past > dealt_.among_first(minibatches)) throw std::logic_error(begun_beyond_the_end);
    minibatches_ = minibatches;
    count_ = dealt_.among_first(minibatches);
  }
  bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const override {
    if (!dealt_.deals_anew_at(origin)) return false;
    numbers.push_back(next_.past - dealt_.among_first(origin));
    return true;
  }

private:
  std::int32_t stage_;
  dealt_microbatches dealt_;
  std::int64_t minibatches_;
  std::int64_t count_; // micro-batches dealt to this replica
  dealt_microbatches::turn next_;
};

} // namespace

std::unique_ptr<generator> make_generator(const schedule& s, const worker& w) {
  const auto& p = find_preset(s.name);
  const auto stage = stages_at(s, w.position).front();
  if (s.is_frozen(stage)) return std::make_unique<frozen_order>(s, stage, w.replica);
  if (p.order == action_order::chunks_in_turn) return make_interleaved_order(s, w);
  if (p.splits_backward) return make_split_backward_order(s, stage, w.replica);
  return std::make_unique<greedy_order>(s, p, stage, w.replica);
}

} // namespace penstock::planner
