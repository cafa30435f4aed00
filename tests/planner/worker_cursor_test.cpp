// What a worker does next: its sequence's order, the window's licence, and an end that moves.
#include "planner/worker_cursor.hpp"
#include "tests/planner/plain_list.hpp"

#include <gmock/gmock.h>

#include <random>
#include <set>

namespace penstock::planner::testing {
namespace {

using action_list = std::vector<action>;

// "F0 B0 U0 F1@1": minibatches, and versions read where not 0.
action_list list_from(const std::string& text) {
  action_list list;
  for (std::size_t i = 0; i < text.size(); ++i) {
    action a;
    a.kind = text[i] == 'F' ? action_kind::forward : text[i] == 'B' ? action_kind::backward : action_kind::update;
    std::size_t used = 0;
    a.minibatch = std::stoll(text.substr(i + 1), &used);
    i += 1 + used;
    if (i < text.size() && text[i] == '@') {
      a.version = std::stoll(text.substr(i + 1), &used);
      i += 1 + used;
    }
    if (a.kind == action_kind::update) a.version = a.minibatch + 1;
    list.push_back(a);
  }
  return list;
}

std::string short_text(const action& a) {
  std::string text(1, a.kind == action_kind::forward ? 'F' : a.kind == action_kind::backward ? 'B' : 'U');
  return text += std::to_string(a.minibatch);
}

class at_hand : public readiness {
public:
  using numbers = std::set<std::int64_t>;
  at_hand(numbers inputs_now = {}, numbers gradients_now = {}, numbers versions_now = {0})
      : inputs(std::move(inputs_now)), gradients(std::move(gradients_now)), versions(std::move(versions_now)) {}
  bool has_input(const action& a) const override { return inputs.contains(a.minibatch); }
  bool has_gradient(const action& a) const override { return gradients.contains(a.minibatch); }
  bool has_version(int /*stage*/, std::int64_t version) const override { return versions.contains(version); }
  numbers inputs;
  numbers gradients;
  numbers versions;
};

// One stage whose minibatch is one update, so long that any list fits.
worker_cursor cursor_on(const action_list& list, std::int64_t credit, int window, bool stashes = true) {
  schedule s{.name = "1f1b", .minibatches = 1000, .window = window, .stashes_weights = stashes};
  s.stages.push_back({.credit = credit});
  return worker_cursor(s, {0, 0}, sequence(s, list));
}

// Begins all that can be begun.
std::string run_on(worker_cursor& cursor, const at_hand& ready) {
  std::string done;
  while (const auto a = cursor.next(ready)) {
    cursor.begin(*a);
    if (!done.empty()) done += ' ';
    done += short_text(*a);
  }
  return done;
}

std::string run(const action_list& list, std::int64_t credit, int window, const at_hand& ready, bool stashes = true) {
  auto cursor = cursor_on(list, credit, window, stashes);
  return run_on(cursor, ready);
}

block_reason why(const worker_cursor& cursor, const at_hand& ready) {
  blocked_action blocked;
  EXPECT_FALSE(cursor.next(ready, &blocked).has_value());
  return blocked.why;
}

TEST(WorkerCursor, KeepsTheListsOrderWithoutAWindow) {
  const auto list = list_from("F0 F1 B0 U0 F2@1 B1 U1");
  EXPECT_EQ(run(list, 2, 0, {{0, 1, 2}, {0, 1}, {0, 1}}), "F0 F1 B0 U0 F2 B1 U1");
  EXPECT_EQ(run(list, 2, 0, {{0, 2}, {0, 1}, {0, 1}}), "F0");
}

TEST(WorkerCursor, SaysWhatTheHeadWaitsFor) {
  const auto list = list_from("F0 F1@1 B0 U0");
  auto cursor = cursor_on(list, 2, 0, true);
  at_hand ready;
  EXPECT_EQ(why(cursor, ready), block_reason::no_input);
  ready.inputs = {0};
  cursor.begin(*cursor.next(ready));
  EXPECT_EQ(why(cursor, ready), block_reason::no_version); // a version can be late where an input is too
  ready.versions = {0, 1};
  EXPECT_EQ(why(cursor, ready), block_reason::no_input);
  ready.inputs = {1};
  cursor.begin(*cursor.next(ready));
  EXPECT_EQ(cursor.in_flight(0), 2);
  blocked_action blocked;
  EXPECT_FALSE(cursor.next(ready, &blocked));
  EXPECT_EQ(blocked.why, block_reason::no_gradient);
  EXPECT_EQ(describe(blocked.what), "backward of minibatch 0 micro-batch 0");
  ready.gradients = {0};
  EXPECT_EQ(run_on(cursor, ready), "B0 U0");
  EXPECT_EQ(why(cursor, ready), block_reason::finished);
  EXPECT_TRUE(cursor.finished());
  EXPECT_EQ(cursor.in_flight(0), 1);
}

TEST(WorkerCursor, HoldsNoMoreForwardsThanItsCredit) {
  const auto list = list_from("F0 F1 B0 B1");
  auto cursor = cursor_on(list, 1, 0, true);
  const at_hand ready{{0, 1}, {0, 1}};
  EXPECT_EQ(run_on(cursor, ready), "F0");
  EXPECT_EQ(why(cursor, ready), block_reason::no_credit);
  EXPECT_EQ(run(list, 1, 1, ready), "F0 B0 F1 B1") << "the window may pay the credit back";
}

TEST(WorkerCursor, LooksOnlyAsFarAsItsWindow) {
  const auto list = list_from("F0 F1 F2 B0 U0");
  const at_hand ready{{0}, {0}};
  EXPECT_EQ(run(list, 3, 1, ready), "F0");
  EXPECT_EQ(run(list, 3, 2, ready), "F0 B0");
  EXPECT_EQ(run(list, 3, 3, ready), "F0 B0 U0");
  EXPECT_EQ(run(list, 3, 1000, ready), "F0 B0 U0");
}

TEST(WorkerCursor, NeverOvertakesWithinForwardsOrWithinBackwardsAndUpdates) {
  const at_hand first_is_late{{1, 2, 3}, {1, 2, 3}, {0, 1, 2}};
  EXPECT_EQ(run(list_from("F0 F1 F2"), 9, 9, first_is_late), "");
  EXPECT_EQ(run(list_from("B0 B1 U0 F1"), 9, 9, first_is_late), "F1") << "neither B1 nor U0 may pass B0";
  EXPECT_EQ(run(list_from("F0 B1 U1 F1 B2"), 9, 9, first_is_late), "B1 U1 B2");
}

TEST(WorkerCursor, ComesBackForWhatItPassed) {
  const auto list = list_from("F0 F1 B0 U0 F2@1 B1 U1 B2 U2");
  auto cursor = cursor_on(list, 3, 2, true);
  at_hand ready{{0}, {0}, {0, 1}};
  EXPECT_EQ(run_on(cursor, ready), "F0 B0 U0");
  ready.gradients = {1};
  EXPECT_EQ(run_on(cursor, ready), "") << "two places are all it may look past F1, whatever is done there";
  ready.inputs = {1, 2};
  ready.gradients = {1, 2};
  EXPECT_EQ(run_on(cursor, ready), "F1 F2 B1 U1 B2 U2");
  EXPECT_TRUE(cursor.finished());
  EXPECT_EQ(cursor.in_flight(0), 0);
}

TEST(WorkerCursor, ABackwardWaitsForItsVersionOnlyWithoutStashing) {
  const auto list = list_from("F0 B0@1");
  const at_hand ready{{0}, {0}};
  EXPECT_EQ(run(list, 1, 0, ready, true), "F0 B0");
  EXPECT_EQ(run(list, 1, 0, ready, false), "F0");
}

TEST(WorkerCursor, KnowsTheOldestVersionThatWillBeLookedUp) {
  const auto list = list_from("F0 F1 B0@1 U0 F2@2 B1@3 U1");
  const at_hand all{{0, 1, 2}, {0, 1}, {0, 1, 2, 3}};
  std::vector<std::optional<std::int64_t>> stashing;
  std::vector<std::optional<std::int64_t>> naive;
  auto a = cursor_on(list, 3, 0, true);
  auto b = cursor_on(list, 3, 0, false);
  for (std::size_t i = 0; i <= list.size(); ++i) {
    stashing.push_back(a.oldest_needed(0));
    naive.push_back(b.oldest_needed(0));
    if (a.finished()) break;
    a.begin(*a.next(all));
    b.begin(*b.next(all));
  }
  const std::optional<std::int64_t> none;
  EXPECT_THAT(stashing, ::testing::ElementsAre(0, 0, 2, 2, 2, none, none, none));
  EXPECT_THAT(naive, ::testing::ElementsAre(0, 0, 1, 2, 2, 3, none, none));
}

TEST(WorkerCursor, RefusesToBeginWhatItDidNotOffer) {
  const auto list = list_from("F0 F1 B0");
  auto cursor = cursor_on(list, 2, 1, true);
  EXPECT_THROW(cursor.begin(list[2]), std::logic_error) << "beyond the window";
  cursor.begin(list[0]);
  EXPECT_THROW(cursor.begin(list[0]), std::logic_error) << "twice";
  EXPECT_THROW(cursor.begin({action_kind::forward, 7, 0, 0}), std::logic_error) << "not in the list";
}

TEST(WorkerCursor, WithoutAListIsFinished) {
  const worker_cursor cursor;
  EXPECT_TRUE(cursor.finished());
  EXPECT_EQ(why(cursor, at_hand{}), block_reason::finished);
  EXPECT_EQ(cursor.oldest_needed(0), std::nullopt);
}

TEST(WorkerCursor, GoesOnToAnEarlierEnd) {
  const auto longer = list_from("F0 F1 B0 U0 F2@1 B1 U1 B2 U2");
  auto cursor = cursor_on(longer, 2, 0, true);
  const at_hand ready{{0, 1}, {0, 1}, {0, 1}};
  EXPECT_EQ(run_on(cursor, ready), "F0 F1 B0 U0");
  cursor.end_after(2);
  EXPECT_EQ(run_on(cursor, ready), "B1 U1");
  EXPECT_TRUE(cursor.finished());
}

TEST(WorkerCursor, FinishesWhenAllThatIsLeftBeforeAnEarlierEndWasBegunAhead) {
  const auto longer = list_from("F0 F1 B0 U0 F2@1 B1 U1 B2 U2");
  auto cursor = cursor_on(longer, 2, 2, true);
  EXPECT_EQ(run_on(cursor, {{0, 1}, {0, 1}, {0, 1}}), "F0 F1 B0 U0 B1 U1");
  EXPECT_FALSE(cursor.finished());
  cursor.end_after(2);
  EXPECT_TRUE(cursor.finished()) << "else the replica never reports that it is done";
  EXPECT_EQ(cursor.oldest_needed(0), std::nullopt);
}

TEST(WorkerCursor, ReportsTheHeadThatWaitsAfterItsEndHasMoved) {
  const auto longer = list_from("F0 F1 F2 B0 B1 B2");
  auto cursor = cursor_on(longer, 3, 2, true);
  const at_hand ready{{0, 1}, {0}};
  EXPECT_EQ(run_on(cursor, ready), "F0 F1 B0");
  cursor.end_after(2);
  blocked_action blocked;
  EXPECT_FALSE(cursor.next(ready, &blocked));
  EXPECT_EQ(blocked.why, block_reason::no_gradient);
  EXPECT_EQ(describe(blocked.what), "backward of minibatch 1 micro-batch 0");
  EXPECT_THROW(cursor.begin(longer[2]), std::logic_error);
}

TEST(WorkerCursor, ForgetsUpdatesThatAnEarlierEndCutsOff) {
  const auto longer = list_from("F0 B0 U0 U1 F2@2 B2@2 U2"); // minibatch 1 is another replica's
  auto cursor = cursor_on(longer, 1, 0, true);
  EXPECT_EQ(run_on(cursor, {{0}, {0}}), "F0 B0 U0 U1") << "nothing of its own is in U1, so nothing holds it back";
  cursor.end_after(1);
  EXPECT_TRUE(cursor.finished());
}

TEST(WorkerCursor, RefusesAnEndBeforeWhatWasBegun) {
  const auto longer = list_from("F0 F1 B0 B1");
  auto in_order = cursor_on(longer, 2, 0, true);
  EXPECT_EQ(run_on(in_order, {{0, 1}, {}}), "F0 F1");
  EXPECT_THROW(in_order.end_after(1), std::logic_error);
  auto ahead = cursor_on(longer, 2, 1, true);
  EXPECT_EQ(run_on(ahead, {{0}, {0}}), "F0 B0");
  EXPECT_THROW(ahead.end_after(0), std::logic_error);
  EXPECT_EQ(run_on(ahead, {{1}, {1}}), "F1 B1") << "a refused end leaves the old one in place";
}

TEST(WorkerCursor, KnowsWhetherABackwardOfAnUpdateIsLeft) {
  for (const int window : {0, 2}) {
    auto cursor = cursor_on(list_from("F0 F1 B0 U0 F2@1 B1 U1 B2 U2"), 2, window);
    at_hand ready{{0, 1}, {}, {0, 1}};
    EXPECT_EQ(run_on(cursor, ready), "F0 F1");
    EXPECT_TRUE(cursor.has_backward_for(0, 0));
    EXPECT_TRUE(cursor.has_backward_for(0, 2)) << "further ahead than any window";
    EXPECT_FALSE(cursor.has_backward_for(0, 3));
    ready.gradients = {0};
    EXPECT_EQ(run_on(cursor, ready), "B0 U0");
    EXPECT_FALSE(cursor.has_backward_for(0, 0));
    EXPECT_TRUE(cursor.has_backward_for(0, 1));
    cursor.end_after(2);
    EXPECT_FALSE(cursor.has_backward_for(0, 2)) << "the end has moved before it";
    ready.gradients = {1};
    EXPECT_EQ(run_on(cursor, ready), "B1 U1");
    EXPECT_FALSE(cursor.has_backward_for(0, 1));
  }
}

TEST(WorkerCursor, ASplitBackwardPaysItsCreditWithTheInputsPart) {
  const action f0{action_kind::forward, 0}, f1{action_kind::forward, 1};
  const action i0{action_kind::backward_input, 0}, i1{action_kind::backward_input, 1};
  const action w0{action_kind::backward_weight, 0}, w1{action_kind::backward_weight, 1};
  auto cursor = cursor_on({f0, i0, f1, i1, w0, w1}, 1, 0);
  at_hand ready{{0, 1}, {0}};
  for (const auto& a : {f0, i0, f1}) {
    EXPECT_EQ(cursor.next(ready), a);
    cursor.begin(a);
  }
  EXPECT_EQ(cursor.in_flight(0), 1);
  EXPECT_EQ(why(cursor, ready), block_reason::no_gradient);
  EXPECT_TRUE(cursor.has_backward_for(0, 0)) << "its weights' part is to come";
  ready.gradients = {1};
  for (const auto& a : {i1, w0}) {
    EXPECT_EQ(cursor.next(ready), a) << "the weights' part waits for nothing";
    cursor.begin(a);
  }
  EXPECT_FALSE(cursor.has_backward_for(0, 0));
  EXPECT_TRUE(cursor.has_backward_for(0, 1));
}

TEST(WorkerCursor, AWindowLetsNoPartOfABackwardOvertakeAnother) {
  const action i0{action_kind::backward_input, 0}, w0{action_kind::backward_weight, 0};
  auto cursor = cursor_on({{action_kind::forward, 0}, {action_kind::forward, 1}, i0, w0}, 2, 3);
  const at_hand ready{{0}, {}};
  cursor.begin(*cursor.next(ready));
  EXPECT_FALSE(cursor.next(ready)) << "neither the forward that has no input nor w0 before i0";
}

// -- every schedule, any timing, stopped at any moment -------------------------------

// A pipeline of cursors in which whatever may happen next happens in random order.
class random_pipeline {
public:
  random_pipeline(const schedule_request& request, std::uint64_t seed)
      : plan_(resolve_schedule(request)), random_(seed) {
    for (const auto& stage : plan_.stages)
      updates_.emplace_back(static_cast<std::size_t>(stage.replicas), 0);
    for (const auto& w : workers_of(plan_))
      parts_.push_back({static_cast<std::size_t>(w.position), w.replica, worker_cursor(plan_, w), {}});
  }

  /// Runs until nothing can happen or `actions` were begun.
  void run(int actions) {
    for (; actions > 0; --actions) {
      admit();
      std::shuffle(parts_.begin(), parts_.end(), random_);
      if (std::none_of(parts_.begin(), parts_.end(), [&](part& p) { return step(p); })) return;
    }
  }
  void stop() {
    plan_.minibatches = admitted_;
    for (auto& p : parts_) {
      p.cursor.end_after(admitted_);
      expect_it_knows_what_is_left(p);
    }
  }
  std::int64_t admitted() const { return admitted_; }
  bool finished() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const part& p) { return p.cursor.finished(); });
  }

private:
  struct part {
    std::size_t stage;
    int replica;
    worker_cursor cursor;
    action_list begun;
  };
  using key = std::tuple<std::size_t, std::int64_t, std::int32_t>;

  class view : public readiness {
  public:
    view(const random_pipeline& all, const part& p) : all_(all), part_(p) {}
    bool has_input(const action& a) const override {
      return part_.stage == 0 ? a.minibatch < all_.admitted_
                              : all_.forwards_.contains({part_.stage - 1, a.minibatch, a.microbatch});
    }
    bool has_gradient(const action& a) const override {
      const bool last = part_.stage + 1 == all_.plan_.stages.size();
      return last ? all_.forwards_.contains({part_.stage, a.minibatch, a.microbatch})
                  : all_.backwards_.contains({part_.stage + 1, a.minibatch, a.microbatch});
    }
    bool has_version(int /*stage*/, std::int64_t version) const override {
      const auto& done = all_.updates_[part_.stage];
      return version <= *std::min_element(done.begin(), done.end());
    }

  private:
    const random_pipeline& all_;
    const part& part_;
  };

  void admit() {
    const auto returned =
        std::count_if(backwards_.begin(), backwards_.end(), [](const key& k) { return std::get<0>(k) == 0; });
    const auto sent = admitted_ * plan_.microbatches;
    if (admitted_ < plan_.minibatches &&
        sent - returned + plan_.microbatches <= std::max<std::int64_t>(plan_.source_credit(), plan_.microbatches))
      ++admitted_;
  }

  bool step(part& p) {
    const auto a = p.cursor.next(view(*this, p));
    if (!a) return false;
    p.cursor.begin(*a);
    p.begun.push_back(*a);
    expect_it_knows_what_is_left(p);
    if (a->kind == action_kind::forward)
      forwards_.insert({p.stage, a->minibatch, a->microbatch});
    else if (ends_flight(a->kind))
      backwards_.insert({p.stage, a->minibatch, a->microbatch});
    else if (a->kind == action_kind::update) {
      EXPECT_EQ(updates_[p.stage][static_cast<std::size_t>(p.replica)]++, a->minibatch);
    }
    return true;
  }

  // By looking through the whole list.
  void expect_it_knows_what_is_left(const part& p) const {
    const auto stage = static_cast<int>(p.stage);
    std::optional<std::int64_t> oldest;
    std::set<std::int64_t> updates; // that a backward is still to come for
    bool forward_seen = false;
    const auto listed = plan_.name == "interleaved" ? plain_interleaved(plan_, {stage, p.replica})
                                                    : plain_list(plan_, stage, p.replica).actions();
    for (const auto& a : listed) {
      if (a.kind == action_kind::update || std::find(p.begun.begin(), p.begun.end(), a) != p.begun.end()) continue;
      const bool is_forward = a.kind == action_kind::forward;
      if (makes_weight_gradient(a.kind)) updates.insert(update_of(plan_, stage, a.minibatch));
      if (is_forward ? !forward_seen : !plan_.stashes_weights && makes_weight_gradient(a.kind))
        oldest = std::min(oldest.value_or(a.version), a.version);
      forward_seen = forward_seen || is_forward;
    }
    EXPECT_EQ(p.cursor.oldest_needed(stage), oldest);
    for (std::int64_t update = 0; update < updates_of(plan_, stage); ++update)
      EXPECT_EQ(p.cursor.has_backward_for(stage, update), updates.contains(update));
    const auto held =
        std::count_if(p.begun.begin(), p.begun.end(), [](const action& a) { return a.kind == action_kind::forward; }) -
        std::count_if(p.begun.begin(), p.begun.end(), [](const action& a) { return ends_flight(a.kind); });
    EXPECT_EQ(p.cursor.in_flight(stage), held);
  }

  schedule plan_;
  std::mt19937_64 random_;
  std::vector<part> parts_;
  std::int64_t admitted_ = 0;
  std::set<key> forwards_;
  std::set<key> backwards_;
  std::vector<std::vector<std::int64_t>> updates_; // per stage and replica
};

TEST(WorkerCursor, EveryScheduleEndsWheneverItIsStopped) {
  const std::vector<std::vector<int>> replica_lists{{1}, {1, 1}, {1, 1, 1, 1}, {2, 1}, {2, 2}, {3, 2, 1}, {1, 2, 1}};
  for (const auto& name : schedule_names())
    for (const auto& replicas : replica_lists)
      for (const int window : {0, 1, 2, 5})
        for (std::uint64_t seed = 0; seed < 25; ++seed) {
          schedule_request request{.name = name, .replicas = replicas, .window = window, .minibatches = 12};
          if (name == "gpipe" || name == "1f1b" || name.starts_with("zb-")) request.microbatches = 3;
          try {
            resolve_schedule(request);
          } catch (const std::invalid_argument&) {
            continue; // not every schedule takes every replica list
          }
          random_pipeline pipeline(request, seed);
          pipeline.run(static_cast<int>(5 * seed));
          const auto where = name + " on " + ::testing::PrintToString(replicas) + ", window " + std::to_string(window) +
                             ", seed " + std::to_string(seed) + ", stopped after " +
                             std::to_string(pipeline.admitted());
          ASSERT_NO_THROW(pipeline.stop()) << where;
          pipeline.run(100000);
          ASSERT_TRUE(pipeline.finished()) << where;
        }
}

} // namespace
} // namespace penstock::planner::testing
