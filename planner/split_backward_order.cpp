// One forward, one input's part of a backward, and the weights' part as late as the stage's bound lets it be.
#include "planner/split_backward_order.hpp"

#include "planner/dealt_microbatches.hpp"

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
      : stage_(stage), dealt_(s, stage, replica),
        credit_(std::max<std::int64_t>(1, s.stages[static_cast<std::size_t>(stage)].credit)),
        delayed_(s.stages[static_cast<std::size_t>(stage)].delayed_weight_gradients),
        is_whole_(stage == s.frozen_stages && delayed_ == 0) {
    forward_ = input_ = weight_ = dealt_.first();
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
      return update_action(stage_, written_);
    case choice::nothing:
      break;
    }
    return std::nullopt;
  }

  void advance() override {
    if (choice_ == choice::update) ++written_;
    if (choice_ == choice::forward) dealt_.pass(forward_);
    if (choice_ == choice::input) dealt_.pass(input_);
    if (choice_ == choice::weight || (choice_ == choice::input && is_whole_)) dealt_.pass(weight_);
    choose();
  }

  void end_after(std::int64_t minibatches) override {
    if (minibatches >= minibatches_) return;
    if (forward_.past > dealt_.among_first(minibatches)) throw std::logic_error(begun_beyond_the_end);
    set_end(minibatches);
  }

  bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const override {
    if (!dealt_.deals_anew_at(origin)) return false;
    const auto dealt = dealt_.among_first(origin);
    numbers.insert(numbers.end(),
                   {forward_.past - dealt, input_.past - dealt, weight_.past - dealt, written_ - origin});
    return true;
  }

private:
  enum class choice : std::uint8_t { nothing, forward, input, weight, update };
  using turn = dealt_microbatches::turn;

  /// What belongs to one minibatch reads the version that all updates before it have written.
  action of(action_kind kind, const turn& p) const {
    return {kind, p.minibatch, static_cast<std::int32_t>(p.microbatch), written_, stage_};
  }

  void set_end(std::int64_t minibatches) {
    minibatches_ = minibatches;
    count_ = dealt_.among_first(minibatches);
    choose();
  }

  void choose() {
    if (written_ < minibatches_ && (weight_.past == count_ || weight_.minibatch > written_))
      choice_ = choice::update;
    else if (weight_.past == count_)
      choice_ = choice::nothing;
    else if (input_.past - weight_.past > delayed_)
      choice_ = choice::weight;
    else if (may_forward())
      choice_ = choice::forward;
    else
      choice_ = input_.past < forward_.past ? choice::input : choice::weight;
  }

  bool may_forward() const {
    return forward_.past < count_ && forward_.minibatch == weight_.minibatch && forward_.past - input_.past < credit_;
  }

  std::int32_t stage_;
  dealt_microbatches dealt_;
  std::int64_t credit_, delayed_;
  bool is_whole_; // nobody waits for the input's part, nor may the weights' part wait
  std::int64_t minibatches_ = 0;
  std::int64_t count_ = 0; // micro-batches dealt to this replica
  turn forward_, input_, weight_;
  std::int64_t written_ = 0;
  choice choice_ = choice::nothing;
};

} // namespace

std::unique_ptr<generator> make_split_backward_order(const schedule& s, int stage, int replica) {
  return std::make_unique<split_backward_order>(s, stage, replica);
}

} // namespace penstock::planner
