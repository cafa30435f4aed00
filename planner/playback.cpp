// Messages, versions and the source's credit, and who is to blame when nothing moves.
#include "planner/playback.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace penstock::planner {

/// What one lane's cursor sees.
class playback::view final : public readiness {
public:
  view(const playback& all, int replica) : all_(all), replica_(replica) {}
  bool has_input(const action& forward) const override {
    if (forward.stage == 0) return all_.running(forward) < all_.admitted_;
    return is_here(here(forward.stage).activations, all_.index(forward.stage, forward));
  }
  bool has_gradient(const action& backward) const override {
    return is_here(here(backward.stage).gradients, all_.index(backward.stage, backward));
  }
  bool has_version(int stage, std::int64_t version) const override { return version <= here(stage).version; }

private:
  const place& here(int stage) const { return all_.place_of(stage, replica_); }
  const playback& all_;
  int replica_;
};

playback::playback(const schedule& s, int window) : playback(s, window, sequences_of(s)) {}

playback::playback(const schedule& s, int window, std::vector<sequence> orders) : schedule_(s) {
  auto windowed = s;
  windowed.window = window;
  const auto workers = workers_of(s);
  if (orders.size() != workers.size())
    throw std::invalid_argument(std::to_string(orders.size()) + " sequences for " + std::to_string(workers.size()) +
                                " workers");
  stages_.resize(s.stages.size());
  lanes_.reserve(workers.size());
  for (std::size_t lane = 0; lane < workers.size(); ++lane) {
    if (workers[lane].replica == 0)
      for (const int stage : stages_at(s, workers[lane].position)) {
        stages_[static_cast<std::size_t>(stage)].first_lane = static_cast<int>(lane);
        stages_[static_cast<std::size_t>(stage)].replicas.resize(
            static_cast<std::size_t>(s.stages[static_cast<std::size_t>(stage)].replicas));
      }
    woken_.push_back(static_cast<int>(lane));
    lanes_.push_back({workers[lane], worker_cursor(windowed, workers[lane], std::move(orders[lane]))});
  }
  admitted_ = std::min(s.source_credit(), total());
  credits_ = s.source_credit() - admitted_;
}

int playback::lane_for(int stage, const action& a) const {
  return first_lane(stage) + replica_of(schedule_, stage, a.minibatch, a.microbatch);
}

// -- what a lane does -----------------------------------------------------------------

std::optional<action> playback::runnable(int lane) const {
  return at(lane).cursor.next(view(*this, at(lane).who.replica));
}

void playback::start(int lane, const action& a) {
  auto& state = lanes_[static_cast<std::size_t>(lane)];
  state.cursor.begin(a);
  if (a.kind == action_kind::update || a.kind == action_kind::backward_weight) return;
  auto& here = place_of(a.stage, state.who.replica);
  if (a.kind != action_kind::forward)
    use(here.gradients, index(a.stage, a));
  else if (a.stage > 0)
    use(here.activations, index(a.stage, a));
}

std::optional<action> playback::start_next(int lane) {
  const auto a = runnable(lane);
  if (a) start(lane, *a);
  return a;
}

// -- what arrives ---------------------------------------------------------------------

bool playback::is_here(const sliding<message>& messages, std::int64_t index) {
  return index >= messages.first() && messages.at(index) == message::here;
}

void playback::put(sliding<message>& messages, std::int64_t index) {
  if (index >= messages.first()) messages.note(index, message::here);
}

void playback::use(sliding<message>& messages, std::int64_t index) {
  messages.note(index, message::used);
  messages.settle([](message m) { return m == message::used; });
}

void playback::deliver_activation(const action& forward) {
  const auto next = forward.stage + 1;
  const bool is_loss = static_cast<std::size_t>(next) == stages_.size();
  const auto to = is_loss ? forward.stage : next;
  auto& there = place_of(to, replica_of(schedule_, to, forward.minibatch, forward.microbatch));
  put(is_loss ? there.gradients : there.activations, index(to, forward));
  woken_.push_back(lane_for(to, forward));
}

void playback::deliver_gradient(const action& backward) {
  const auto to = backward.stage - 1;
  if (to < schedule_.frozen_stages) {
    ++credits_;
    return admit();
  }
  put(place_of(to, replica_of(schedule_, to, backward.minibatch, backward.microbatch)).gradients, index(to, backward));
  woken_.push_back(lane_for(to, backward));
}

void playback::admit() {
  const auto most = held_at_ < schedule_.minibatches ? held_at_ * schedule_.microbatches : total();
  for (; credits_ > 0 && admitted_ < most; --credits_, ++admitted_)
    // Stage 0 deals by the same running number as the source counts.
    woken_.push_back(first_lane(0) + static_cast<int>(admitted_ % schedule_.stages.front().replicas));
}

void playback::hold_source_at(std::int64_t minibatches) {
  held_at_ = minibatches;
  if (admitted_ > minibatches * schedule_.microbatches) { // only before anything has run
    credits_ += admitted_ - minibatches * schedule_.microbatches;
    admitted_ = minibatches * schedule_.microbatches;
  }
  admit();
}

void playback::finish_update(int stage, int replica) {
  ++place_of(stage, replica).updates;
  auto& replicas = stages_[static_cast<std::size_t>(stage)].replicas;
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const auto& p : replicas)
    least = std::min(least, p.updates);
  if (least == place_of(stage, replica).version) return;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    replicas[r].version = least;
    woken_.push_back(first_lane(stage) + static_cast<int>(r));
  }
}

void playback::finish_own_update(int stage, int replica) {
  auto& here = place_of(stage, replica);
  here.version = ++here.updates;
  woken_.push_back(first_lane(stage) + replica);
}

void playback::take_woken(std::vector<int>& woken) {
  woken.clear();
  woken.swap(woken_);
}

// -- where it stands --------------------------------------------------------------------

bool playback::append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const {
  const auto append = [&](const sliding<message>& messages, std::int64_t dealt) {
    numbers.insert(numbers.end(), {messages.first() - dealt, messages.size()});
    for (auto i = messages.first(); i < messages.first() + messages.size(); ++i)
      numbers.push_back(static_cast<std::int64_t>(messages.at(i)));
  };
  numbers.insert(numbers.end(), {credits_, admitted_ - origin * schedule_.microbatches});
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const auto updated = update_of(schedule_, static_cast<int>(s), origin);
    const auto dealt = origin * schedule_.microbatches / schedule_.stages[s].replicas;
    for (const auto& p : stages_[s].replicas) {
      numbers.insert(numbers.end(), {p.updates - updated, p.version - updated});
      if (s > 0) append(p.activations, dealt);
      if (!schedule_.is_frozen(static_cast<int>(s))) append(p.gradients, dealt);
    }
  }
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const lane_state& lane) { return lane.cursor.append_state(origin, numbers); });
}

playback::obstacle playback::missing_credit() const {
  const int stage = schedule_.frozen_stages; // whose backwards give credits back
  obstacle who{first_lane(stage), "a credit of the source"};
  auto lowest = std::numeric_limits<std::int64_t>::max();
  for (int r = 0; r < schedule_.first_active().replicas; ++r) {
    const auto& next = at(first_lane(stage) + r).cursor.next_gradient(stage);
    if (!next || running(*next) >= lowest) continue;
    lowest = running(*next);
    who.lane = first_lane(stage) + r;
  }
  return who;
}

playback::obstacle playback::missing_version(int stage, std::int64_t version) const {
  const auto& replicas = stages_[static_cast<std::size_t>(stage)].replicas;
  const auto slowest = std::min_element(replicas.begin(), replicas.end(),
                                        [](const place& a, const place& b) { return a.updates < b.updates; });
  return {first_lane(stage) + static_cast<int>(slowest - replicas.begin()), "version " + std::to_string(version)};
}

playback::obstacle playback::blocked_by(int lane) const {
  const auto& a = *head(lane);
  const auto here = a.stage;
  if (a.version > place_of(here, replica(lane)).version) return missing_version(here, a.version);
  if (a.kind != action_kind::forward) return {lane_for(here + 1, a), "its gradient"};
  return here == 0 ? missing_credit() : obstacle{lane_for(here - 1, a), "its input"};
}

} // namespace penstock::planner
