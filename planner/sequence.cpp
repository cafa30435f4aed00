// The value around a generator, and orders written by hand.
#include "planner/sequence.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock::planner {

namespace {

class listed_order final : public generator {
public:
  listed_order(const schedule& s, std::vector<action> listed)
      : listed_(std::make_shared<const std::vector<action>>(std::move(listed))), end_(s.minibatches) {
    for (std::size_t stage = 0; stage < s.stages.size(); ++stage)
      per_update_.push_back(minibatches_per_update(s, static_cast<int>(stage)));
  }

  std::unique_ptr<generator> clone() const override { return std::make_unique<listed_order>(*this); }
  std::optional<action> peek() const override {
    if (next_ == listed_->size()) return std::nullopt;
    return (*listed_)[next_];
  }
  void advance() override {
    ++next_;
    pass_beyond();
  }
  void end_after(std::int64_t minibatches) override {
    if (minibatches >= end_) return;
    for (std::size_t i = 0; i < next_; ++i)
      if (const auto& a = (*listed_)[i]; a.kind != action_kind::update && a.minibatch >= minibatches)
        throw std::logic_error(begun_beyond_the_end);
    end_ = minibatches;
    is_cut_ = true;
    pass_beyond();
  }
  bool append_state(std::int64_t /*origin*/, std::vector<std::int64_t>& /*numbers*/) const override { return false; }

private:
  bool is_beyond(const action& a) const {
    if (a.kind != action_kind::update) return a.minibatch >= end_;
    const auto stage = static_cast<std::size_t>(a.stage);
    return a.minibatch * (stage < per_update_.size() ? per_update_[stage] : 1) >= end_;
  }
  /// A list as it was written is left as it is: what it holds beyond its own end is for the checker to find.
  void pass_beyond() {
    while (is_cut_ && next_ < listed_->size() && is_beyond((*listed_)[next_]))
      ++next_;
  }

  std::shared_ptr<const std::vector<action>> listed_;
  std::vector<std::int64_t> per_update_; // minibatches, by stage
  std::size_t next_ = 0;
  std::int64_t end_;
  bool is_cut_ = false;
};

void check_worker(const schedule& s, const worker& w) {
  if (s.microbatches < 1)
    throw std::invalid_argument("the schedule has " + std::to_string(s.microbatches) +
                                " micro-batches, wanted at least 1");
  if (w.position < 0 || w.position >= positions_of(s))
    throw std::invalid_argument("a worker is at position " + std::to_string(w.position) + ", wanted 0 to " +
                                std::to_string(positions_of(s) - 1));
  const auto replicas = s.stages[static_cast<std::size_t>(stages_at(s, w.position).front())].replicas;
  if (w.replica < 0 || w.replica >= replicas)
    throw std::invalid_argument("a worker is replica " + std::to_string(w.replica) + " at position " +
                                std::to_string(w.position) + ", wanted 0 to " + std::to_string(replicas - 1));
}

} // namespace

sequence::sequence(std::unique_ptr<generator> order) : order_(std::move(order)), next_(order_->peek()) {}

sequence::sequence(const schedule& s, const worker& w) {
  check_worker(s, w);
  *this = sequence(make_generator(s, w));
}

sequence::sequence(const schedule& s, std::vector<action> listed)
    : sequence(std::make_unique<listed_order>(s, std::move(listed))) {}

sequence::sequence(const sequence& other)
    : order_(other.order_ ? other.order_->clone() : nullptr), next_(other.next_) {}

sequence& sequence::operator=(const sequence& other) {
  if (this != &other) *this = sequence(other);
  return *this;
}

void sequence::advance() {
  order_->advance();
  next_ = order_->peek();
}

std::optional<action> sequence::next() {
  auto a = next_;
  if (a) advance();
  return a;
}

void sequence::end_after(std::int64_t minibatches) {
  if (!order_) return;
  order_->end_after(minibatches);
  next_ = order_->peek();
}

bool sequence::append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const {
  return order_ && order_->append_state(origin, numbers);
}

std::vector<sequence> sequences_of(const schedule& s) {
  std::vector<sequence> all;
  for (const auto& w : workers_of(s))
    all.emplace_back(s, w);
  return all;
}

std::vector<action> write_out(sequence rest) {
  std::vector<action> actions;
  while (const auto a = rest.next())
    actions.push_back(*a);
  return actions;
}

stage_passes::stage_passes(sequence from, int stage, kind wanted)
    : place_(std::move(from)), stage_(stage), wanted_(wanted) {
  find();
}

void stage_passes::advance() {
  place_.advance();
  find();
}

void stage_passes::find() {
  while (const auto& a = place_.peek()) {
    const bool is_of_kind =
        wanted_ == kind::forwards ? a->kind == action_kind::forward : makes_weight_gradient(a->kind);
    if (is_of_kind && a->stage == stage_) return;
    place_.advance();
  }
}

} // namespace penstock::planner
