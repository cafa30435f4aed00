// One forward, one input's part of a backward, and the weights' part as late as the stage's bound lets it be.
#include "planner/split_backward_order.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace penstock::planner {

namespace {

/// Every choice looks only at what lies behind and at the minibatch of the next forward, hence the order for fewer
/// minibatches is a prefix.
class split_backward_order final : public generator {
public:
  split_backward_order(const schedule& s, int stage, int replica)
      : stage_(stage), microbatches_(s.microbatches), replicas_(s.stages[static_cast<std::size_t>(stage)].replicas),
        replica_(replica), credit_(std::max<std::int64_t>(1, s.stages[static_cast<std::size_t>(stage)].credit)),
        delayed_(s.stages[static_cast<std::size_t>(stage)].delayed_weight_gradients),
        is_whole_(stage == 0 && delayed_ == 0) {
    skipped_minibatches_ = replicas_ / microbatches_;
    skipped_microbatches_ = replicas_ % microbatches_;
    forward_ = input_ = weight_ = {0, replica_ / microbatches_, replica_ % microbatches_};
    set_end(s.minibatches);
  }

  std::unique_ptr<generator> clone() const override { return std::make_unique<split_backward_order>(*this); }

  std::optional<action> peek() const override {
    switch (choice_) {
    case choice::forward:
      return of(action_kind::forward, forward_);
    case choice::input:
      return of(is_whole_ ? action_kind::backward : action_kind::backward_input, input_);
    case choice::weight:
      return of(action_kind::backward_weight, weight_);
    case choice::update:
      return action{action_kind::update, written_, 0, written_ + 1, stage_};
    case choice::nothing:
      break;
    }
    return std::nullopt;
  }

  void advance() override {
    if (choice_ == choice::update) ++written_;
    if (choice_ == choice::forward) pass(forward_);
    if (choice_ == choice::input) pass(input_);
    if (choice_ == choice::weight || (choice_ == choice::input && is_whole_)) pass(weight_);
    choose();
  }

  void end_after(std::int64_t minibatches) override {
    if (minibatches >= minibatches_) return;
    if (forward_.count > count_until(minibatches)) throw std::logic_error(begun_beyond_the_end);
    set_end(minibatches);
  }

  bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const override {
    if (origin * microbatches_ % replicas_ != 0) return false;
    const auto dealt = origin * microbatches_ / replicas_;
    numbers.insert(numbers.end(),
                   {forward_.count - dealt, input_.count - dealt, weight_.count - dealt, written_ - origin});
    return true;
  }

private:
  enum class choice : std::uint8_t { nothing, forward, input, weight, update };
  /// How many of the replica's micro-batches are past, and the next one. They are dealt in turn by the running number.
  struct progress {
    std::int64_t count = 0;
    std::int64_t minibatch = 0;
    std::int64_t microbatch = 0;
  };

  void pass(progress& p) const { // without a division: this runs for every action of a simulation
    ++p.count;
    p.minibatch += skipped_minibatches_;
    p.microbatch += skipped_microbatches_;
    if (p.microbatch < microbatches_) return;
    p.microbatch -= microbatches_;
    ++p.minibatch;
  }
  /// What belongs to one minibatch reads the version that all updates before it have written.
  action of(action_kind kind, const progress& p) const {
    return {kind, p.minibatch, static_cast<std::int32_t>(p.microbatch), written_, stage_};
  }

  /// Micro-batches of the first minibatches that are dealt to this replica.
  std::int64_t count_until(std::int64_t minibatches) const {
    const auto all = minibatches * microbatches_;
    return all > replica_ ? (all - replica_ + replicas_ - 1) / replicas_ : 0;
  }
  void set_end(std::int64_t minibatches) {
    minibatches_ = minibatches;
    count_ = count_until(minibatches);
    choose();
  }

  void choose() {
    if (written_ < minibatches_ && (weight_.count == count_ || weight_.minibatch > written_))
      choice_ = choice::update;
    else if (weight_.count == count_)
      choice_ = choice::nothing;
    else if (input_.count - weight_.count > delayed_)
      choice_ = choice::weight;
    else if (may_forward())
      choice_ = choice::forward;
    else
      choice_ = input_.count < forward_.count ? choice::input : choice::weight;
  }

  bool may_forward() const {
    return forward_.count < count_ && forward_.minibatch == weight_.minibatch &&
           forward_.count - input_.count < credit_;
  }

  std::int32_t stage_;
  std::int64_t microbatches_, replicas_, replica_, credit_, delayed_;
  bool is_whole_; // nobody waits for the input's part, nor may the weights' part wait
  std::int64_t minibatches_ = 0;
  std::int64_t count_ = 0; // micro-batches dealt to this replica
  progress forward_, input_, weight_;
  std::int64_t written_ = 0;
  std::int64_t skipped_minibatches_ = 0, skipped_microbatches_ = 0; // from one of its micro-batches to the next
  choice choice_ = choice::nothing;
};

} // namespace

std::unique_ptr<generator> make_split_backward_order(const schedule& s, int stage, int replica) {
  return std::make_unique<split_backward_order>(s, stage, replica);
}

} // namespace penstock::planner
