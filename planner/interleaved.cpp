// Slots of the full order, counted; those of micro-batches that are not there are passed over.
#include "planner/interleaved.hpp"

#include <algorithm>
#include <stdexcept>

namespace penstock::planner {

namespace {

/// A place in one minibatch's order on one worker.
class minibatch_order {
public:
  struct slot {
    bool is_forward = true;
    std::int64_t chunk = 0;
    std::int64_t microbatch = 0; // of the replica's own
  };

  minibatch_order() = default;
  minibatch_order(std::int64_t positions, std::int64_t chunks, std::int64_t position, std::int64_t microbatches)
      : positions_(positions), chunks_(chunks), microbatches_(microbatches),
        passes_((microbatches + positions - 1) / positions * positions * chunks),
        warm_up_(2 * (positions - 1 - position) + (chunks - 1) * positions) {
    pass_over();
  }

  bool is_over() const { return backwards_ == passes_; }
  slot peek() const { return next_is_forward() ? pass_at(true, forwards_) : pass_at(false, backwards_); }
  void advance() {
    step();
    pass_over();
  }
  void append_state(std::vector<std::int64_t>& numbers) const {
    numbers.insert(numbers.end(), {forwards_, backwards_});
  }

private:
  bool next_is_forward() const { return forwards_ < passes_ && forwards_ - backwards_ <= warm_up_; }
  slot pass_at(bool is_forward, std::int64_t pass) const {
    const auto group = pass / (positions_ * chunks_);
    const auto within = pass % (positions_ * chunks_);
    const auto chunk = within / positions_;
    return {is_forward, is_forward ? chunk : chunks_ - 1 - chunk, group * positions_ + within % positions_};
  }
  void step() { ++(next_is_forward() ? forwards_ : backwards_); }
  void pass_over() {
    while (!is_over() && peek().microbatch >= microbatches_)
      step();
  }

  std::int64_t positions_ = 1, chunks_ = 1, microbatches_ = 0, passes_ = 0, warm_up_ = 0;
  std::int64_t forwards_ = 0, backwards_ = 0; // of the full order
};

class interleaved_order final : public generator {
public:
  interleaved_order(const schedule& s, const worker& w)
      : position_(w.position), replica_(w.replica), positions_(positions_of(s)), chunks_(s.chunks),
        microbatches_(s.microbatches), replicas_(s.stages[static_cast<std::size_t>(w.position)].replicas),
        minibatches_(s.minibatches) {
    begin(0);
  }

  std::unique_ptr<generator> clone() const override { return std::make_unique<interleaved_order>(*this); }

  std::optional<action> peek() const override {
    if (minibatch_ >= minibatches_) return std::nullopt;
    if (updates_due_ > 0) // the last chunk's first
      return update_action(stage_of(chunks_ - 1 - updates_), minibatch_);
    const auto next = within_.peek();
    return action{next.is_forward ? action_kind::forward : action_kind::backward, minibatch_,
                  static_cast<std::int32_t>(first_ + next.microbatch * replicas_), minibatch_, stage_of(next.chunk)};
  }

  void advance() override {
    if (updates_due_ > 0) {
      --updates_due_;
      if (++updates_ == chunks_) begin(minibatch_ + 1);
      return;
    }
    const auto done = within_.peek();
    if (done.is_forward) begun_ = minibatch_ + 1;
    within_.advance();
    if (!done.is_forward && done.microbatch + 1 == share_) ++updates_due_;
  }

  void end_after(std::int64_t minibatches) override {
    if (minibatches >= minibatches_) return;
    if (begun_ > minibatches) throw std::logic_error(begun_beyond_the_end);
    minibatches_ = minibatches;
  }

  bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const override {
    if (origin * microbatches_ % replicas_ != 0) return false;
    numbers.insert(numbers.end(), {minibatch_ - origin, updates_, updates_due_});
    within_.append_state(numbers);
    return true;
  }

private:
  std::int32_t stage_of(std::int64_t chunk) const { return static_cast<std::int32_t>(position_ + chunk * positions_); }

  void begin(std::int64_t minibatch) {
    minibatch_ = minibatch;
    updates_ = 0;
    // Dealt in turn by a running number, of which the minibatch's first is minibatch * M.
    first_ = (replica_ - minibatch * microbatches_ % replicas_ + replicas_) % replicas_;
    share_ = first_ < microbatches_ ? (microbatches_ - first_ + replicas_ - 1) / replicas_ : 0;
    within_ = minibatch_order(positions_, chunks_, position_, share_);
    updates_due_ = share_ == 0 ? chunks_ : 0; // it has nothing to add to them
  }

  std::int64_t position_, replica_, positions_, chunks_, microbatches_, replicas_;
  std::int64_t minibatches_;
  std::int64_t begun_ = 0; // minibatches up to the last that has a forward behind
  std::int64_t minibatch_ = 0;
  std::int64_t first_ = 0, share_ = 0; // the replica's micro-batches of it
  std::int64_t updates_ = 0;           // of it, behind
  std::int64_t updates_due_ = 0;
  minibatch_order within_;
};

} // namespace

std::unique_ptr<generator> make_interleaved_order(const schedule& s, const worker& w) {
  return std::make_unique<interleaved_order>(s, w);
}

std::vector<std::int64_t> interleaved_credits(int positions, int chunks, int replicas, int microbatches) {
  // Warm-up is less than two rounds of the chunks; what comes after two more repeats.
  const auto share = std::min<std::int64_t>((microbatches + replicas - 1) / replicas, std::int64_t{4} * positions);
  std::vector<std::int64_t> credits(static_cast<std::size_t>(positions) * static_cast<std::size_t>(chunks));
  for (int position = 0; position < positions; ++position) {
    std::vector<std::int64_t> held(static_cast<std::size_t>(chunks));
    for (minibatch_order order(positions, chunks, position, share); !order.is_over(); order.advance()) {
      const auto next = order.peek();
      auto& now = held[static_cast<std::size_t>(next.chunk)];
      now += next.is_forward ? 1 : -1;
      auto& most = credits[static_cast<std::size_t>(position + next.chunk * positions)];
      most = std::max(most, now);
    }
  }
  return credits;
}

} // namespace penstock::planner
