// What a replica does next: the list's order, the window's licence, and the list replaced by a shorter one.
#include "actors/policy/replica_cursor.hpp"

#include <gmock/gmock.h>

#include <random>
#include <set>

namespace penstock::actors {
namespace {

using planner::action;
using planner::action_kind;
using planner::replica_list;

// "F0 B0 U0 F1@1": minibatches, and versions read where not 0.
replica_list list_of(const std::string& text) {
  replica_list list;
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
    list.actions.push_back(a);
  }
  return list;
}

std::string short_text(const action& a) {
  std::string text(1, a.kind == action_kind::forward ? 'F' : a.kind == action_kind::backward ? 'B' : 'U');
  return text += std::to_string(a.minibatch);
}

class at_hand : public replica_readiness {
public:
  using numbers = std::set<std::int64_t>;
  at_hand(numbers inputs_now = {}, numbers gradients_now = {}, numbers versions_now = {0})
      : inputs(std::move(inputs_now)), gradients(std::move(gradients_now)), versions(std::move(versions_now)) {}
  bool has_input(std::int64_t minibatch, std::int32_t) const override { return inputs.contains(minibatch); }
  bool has_gradient(std::int64_t minibatch, std::int32_t) const override { return gradients.contains(minibatch); }
  bool has_version(std::int64_t version) const override { return versions.contains(version); }
  numbers inputs;
  numbers gradients;
  numbers versions;
};

// Begins all that can be begun.
std::string run_on(replica_cursor& cursor, const at_hand& ready) {
  std::string done;
  while (const auto a = cursor.next(ready)) {
    cursor.begin(*a);
    if (!done.empty()) done += ' ';
    done += short_text(*a);
  }
  return done;
}

std::string run(const replica_list& list, std::int64_t credit, int window, const at_hand& ready, bool stashes = true) {
  replica_cursor cursor(&list, credit, window, stashes);
  return run_on(cursor, ready);
}

block_reason why(const replica_cursor& cursor, const at_hand& ready) {
  blocked_action blocked;
  EXPECT_FALSE(cursor.next(ready, &blocked).has_value());
  return blocked.why;
}

TEST(ReplicaCursor, KeepsTheListsOrderWithoutAWindow) {
  const auto list = list_of("F0 F1 B0 U0 F2@1 B1 U1");
  EXPECT_EQ(run(list, 2, 0, {{0, 1, 2}, {0, 1}, {0, 1}}), "F0 F1 B0 U0 F2 B1 U1");
  EXPECT_EQ(run(list, 2, 0, {{0, 2}, {0, 1}, {0, 1}}), "F0");
}

TEST(ReplicaCursor, SaysWhatTheHeadWaitsFor) {
  const auto list = list_of("F0 F1@1 B0 U0");
  replica_cursor cursor(&list, 2, 0, true);
  at_hand ready;
  EXPECT_EQ(why(cursor, ready), block_reason::no_input);
  ready.inputs = {0};
  cursor.begin(*cursor.next(ready));
  EXPECT_EQ(why(cursor, ready), block_reason::no_version); // a version can be late where an input is too
  ready.versions = {0, 1};
  EXPECT_EQ(why(cursor, ready), block_reason::no_input);
  ready.inputs = {1};
  cursor.begin(*cursor.next(ready));
  EXPECT_EQ(cursor.in_flight(), 2);
  blocked_action blocked;
  EXPECT_FALSE(cursor.next(ready, &blocked));
  EXPECT_EQ(blocked.why, block_reason::no_gradient);
  EXPECT_EQ(to_string(blocked.what), "backward of minibatch 0 micro-batch 0");
  ready.gradients = {0};
  EXPECT_EQ(run_on(cursor, ready), "B0 U0");
  EXPECT_EQ(why(cursor, ready), block_reason::finished);
  EXPECT_TRUE(cursor.finished());
  EXPECT_EQ(cursor.in_flight(), 1);
}

TEST(ReplicaCursor, HoldsNoMoreForwardsThanItsCredit) {
  const auto list = list_of("F0 F1 B0 B1");
  replica_cursor cursor(&list, 1, 0, true);
  const at_hand ready{{0, 1}, {0, 1}};
  EXPECT_EQ(run_on(cursor, ready), "F0");
  EXPECT_EQ(why(cursor, ready), block_reason::no_credit);
  EXPECT_EQ(run(list, 1, 1, ready), "F0 B0 F1 B1") << "the window may pay the credit back";
}

TEST(ReplicaCursor, LooksOnlyAsFarAsItsWindow) {
  const auto list = list_of("F0 F1 F2 B0 U0");
  const at_hand ready{{0}, {0}};
  EXPECT_EQ(run(list, 3, 1, ready), "F0");
  EXPECT_EQ(run(list, 3, 2, ready), "F0 B0");
  EXPECT_EQ(run(list, 3, 3, ready), "F0 B0 U0");
  EXPECT_EQ(run(list, 3, 1000, ready), "F0 B0 U0");
}

TEST(ReplicaCursor, NeverOvertakesWithinForwardsOrWithinBackwardsAndUpdates) {
  const at_hand first_is_late{{1, 2, 3}, {1, 2, 3}, {0, 1, 2}};
  EXPECT_EQ(run(list_of("F0 F1 F2"), 9, 9, first_is_late), "");
  EXPECT_EQ(run(list_of("B0 B1 U0 F1"), 9, 9, first_is_late), "F1") << "neither B1 nor U0 may pass B0";
  EXPECT_EQ(run(list_of("F0 B1 U1 F1 B2"), 9, 9, first_is_late), "B1 U1 B2");
}

TEST(ReplicaCursor, ComesBackForWhatItPassed) {
  const auto list = list_of("F0 F1 B0 U0 F2@1 B1 U1 B2 U2");
  replica_cursor cursor(&list, 3, 2, true);
  at_hand ready{{0}, {0}, {0, 1}};
  EXPECT_EQ(run_on(cursor, ready), "F0 B0 U0");
  ready.gradients = {1};
  EXPECT_EQ(run_on(cursor, ready), "") << "two places are all it may look past F1, whatever is done there";
  ready.inputs = {1, 2};
  ready.gradients = {1, 2};
  EXPECT_EQ(run_on(cursor, ready), "F1 F2 B1 U1 B2 U2");
  EXPECT_TRUE(cursor.finished());
  EXPECT_EQ(cursor.in_flight(), 0);
}

TEST(ReplicaCursor, ABackwardWaitsForItsVersionOnlyWithoutStashing) {
  const auto list = list_of("F0 B0@1");
  const at_hand ready{{0}, {0}};
  EXPECT_EQ(run(list, 1, 0, ready, true), "F0 B0");
  EXPECT_EQ(run(list, 1, 0, ready, false), "F0");
}

TEST(ReplicaCursor, KnowsTheOldestVersionThatWillBeLookedUp) {
  const auto list = list_of("F0 F1 B0@1 U0 F2@2 B1@3 U1");
  const at_hand all{{0, 1, 2}, {0, 1}, {0, 1, 2, 3}};
  std::vector<std::optional<std::int64_t>> stashing;
  std::vector<std::optional<std::int64_t>> naive;
  replica_cursor a(&list, 3, 0, true);
  replica_cursor b(&list, 3, 0, false);
  for (std::size_t i = 0; i <= list.actions.size(); ++i) {
    stashing.push_back(a.oldest_needed());
    naive.push_back(b.oldest_needed());
    if (a.finished()) break;
    a.begin(*a.next(all));
    b.begin(*b.next(all));
  }
  const std::optional<std::int64_t> none;
  EXPECT_THAT(stashing, ::testing::ElementsAre(0, 0, 2, 2, 2, none, none, none));
  EXPECT_THAT(naive, ::testing::ElementsAre(0, 0, 1, 2, 2, 3, none, none));
}

TEST(ReplicaCursor, RefusesToBeginWhatItDidNotOffer) {
  const auto list = list_of("F0 F1 B0");
  replica_cursor cursor(&list, 2, 1, true);
  EXPECT_THROW(cursor.begin(list.actions[2]), std::logic_error) << "beyond the window";
  cursor.begin(list.actions[0]);
  EXPECT_THROW(cursor.begin(list.actions[0]), std::logic_error) << "twice";
  EXPECT_THROW(cursor.begin({action_kind::forward, 7, 0, 0}), std::logic_error) << "not in the list";
}

TEST(ReplicaCursor, WithoutAListIsFinished) {
  const replica_cursor cursor;
  EXPECT_TRUE(cursor.finished());
  EXPECT_EQ(why(cursor, at_hand{}), block_reason::finished);
  EXPECT_EQ(cursor.oldest_needed(), std::nullopt);
}

TEST(ReplicaCursor, GoesOnInAShorterList) {
  const auto longer = list_of("F0 F1 B0 U0 F2@1 B1 U1 B2 U2");
  const auto shorter = list_of("F0 F1 B0 U0 B1 U1");
  replica_cursor cursor(&longer, 2, 0, true);
  const at_hand ready{{0, 1}, {0, 1}, {0, 1}};
  EXPECT_EQ(run_on(cursor, ready), "F0 F1 B0 U0");
  cursor.replace(&shorter);
  EXPECT_EQ(run_on(cursor, ready), "B1 U1");
  EXPECT_TRUE(cursor.finished());
}

TEST(ReplicaCursor, FinishesWhenAllThatIsLeftOfAShorterListWasBegunAhead) {
  const auto longer = list_of("F0 F1 B0 U0 F2@1 B1 U1 B2 U2");
  const auto shorter = list_of("F0 F1 B0 U0 B1 U1");
  replica_cursor cursor(&longer, 2, 2, true);
  EXPECT_EQ(run_on(cursor, {{0, 1}, {0, 1}, {0, 1}}), "F0 F1 B0 U0 B1 U1");
  EXPECT_FALSE(cursor.finished());
  cursor.replace(&shorter);
  EXPECT_TRUE(cursor.finished()) << "else the replica never reports that it is done";
  EXPECT_EQ(cursor.oldest_needed(), std::nullopt);
}

TEST(ReplicaCursor, ReportsTheHeadOfAShorterListWhereItWaits) {
  const auto longer = list_of("F0 F1 F2 B0 B1 B2");
  const auto shorter = list_of("F0 F1 B0 B1");
  replica_cursor cursor(&longer, 3, 2, true);
  const at_hand ready{{0, 1}, {0}};
  EXPECT_EQ(run_on(cursor, ready), "F0 F1 B0");
  cursor.replace(&shorter);
  blocked_action blocked;
  EXPECT_FALSE(cursor.next(ready, &blocked));
  EXPECT_EQ(blocked.why, block_reason::no_gradient);
  EXPECT_EQ(to_string(blocked.what), "backward of minibatch 1 micro-batch 0");
  EXPECT_THROW(cursor.begin(longer.actions[2]), std::logic_error);
}

TEST(ReplicaCursor, ForgetsUpdatesThatTheShorterListCutsOff) {
  const auto longer = list_of("F0 B0 U0 U1 F2@2 B2@2 U2"); // minibatch 1 is another replica's
  const auto shorter = list_of("F0 B0 U0");
  replica_cursor cursor(&longer, 1, 0, true);
  EXPECT_EQ(run_on(cursor, {{0}, {0}}), "F0 B0 U0 U1") << "nothing of its own is in U1, so nothing holds it back";
  cursor.replace(&shorter);
  EXPECT_TRUE(cursor.finished());
}

TEST(ReplicaCursor, RefusesAShorterListThatForgetsWhatWasDone) {
  const auto longer = list_of("F0 F1 B0 B1");
  const auto other = list_of("F0 B0");
  const auto too_short = list_of("F0");
  replica_cursor in_order(&longer, 2, 0, true);
  EXPECT_EQ(run_on(in_order, {{0, 1}, {}}), "F0 F1");
  EXPECT_THROW(in_order.replace(&other), std::logic_error);
  EXPECT_THROW(in_order.replace(&too_short), std::logic_error);
  replica_cursor ahead(&longer, 2, 1, true);
  EXPECT_EQ(run_on(ahead, {{0}, {0}}), "F0 B0");
  EXPECT_THROW(ahead.replace(&too_short), std::logic_error);
  EXPECT_EQ(run_on(ahead, {{1}, {1}}), "F1 B1") << "a refused list leaves the old one in place";
}

TEST(ReplicaCursor, NamesActionsForPeople) {
  EXPECT_EQ(to_string(action{action_kind::forward, 3, 1, 0}), "forward of minibatch 3 micro-batch 1");
  EXPECT_EQ(to_string(action{action_kind::backward_weight, 3, 1, 0}), "backward_weight of minibatch 3 micro-batch 1");
  EXPECT_EQ(to_string(action{action_kind::update, 4, 0, 5}), "update 4");
}

// -- every schedule, any timing, stopped at any moment -------------------------------

// A pipeline of cursors in which whatever may happen next happens in random order.
class random_pipeline {
public:
  random_pipeline(planner::schedule_request request, std::uint64_t seed)
      : request_(std::move(request)), plan_(planner::make_schedule(request_)), random_(seed) {
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      updates_.emplace_back(plan_.stages[s].lists.size(), 0);
      for (const auto& list : plan_.stages[s].lists)
        parts_.push_back({s, &list - plan_.stages[s].lists.data(),
                          replica_cursor(&list, plan_.stages[s].credit, request_.window, plan_.stashes_weights)});
    }
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
    request_.minibatches = plan_.minibatches = admitted_;
    shorter_ = planner::make_schedule(request_);
    for (auto& p : parts_)
      p.cursor.replace(&shorter_.stages[p.stage].lists[static_cast<std::size_t>(p.replica)]);
  }
  std::int64_t admitted() const { return admitted_; }
  bool finished() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const part& p) { return p.cursor.finished(); });
  }

private:
  struct part {
    std::size_t stage;
    std::ptrdiff_t replica;
    replica_cursor cursor;
  };
  using key = std::tuple<std::size_t, std::int64_t, std::int32_t>;

  class view : public replica_readiness {
  public:
    view(const random_pipeline& all, const part& p) : all_(all), part_(p) {}
    bool has_input(std::int64_t minibatch, std::int32_t microbatch) const override {
      return part_.stage == 0 ? minibatch < all_.admitted_
                              : all_.forwards_.contains({part_.stage - 1, minibatch, microbatch});
    }
    bool has_gradient(std::int64_t minibatch, std::int32_t microbatch) const override {
      const bool last = part_.stage + 1 == all_.plan_.stages.size();
      return last ? all_.forwards_.contains({part_.stage, minibatch, microbatch})
                  : all_.backwards_.contains({part_.stage + 1, minibatch, microbatch});
    }
    bool has_version(std::int64_t version) const override {
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
    if (a->kind == action_kind::forward)
      forwards_.insert({p.stage, a->minibatch, a->microbatch});
    else if (a->kind == action_kind::backward)
      backwards_.insert({p.stage, a->minibatch, a->microbatch});
    else
      EXPECT_EQ(updates_[p.stage][static_cast<std::size_t>(p.replica)]++, a->minibatch);
    return true;
  }

  planner::schedule_request request_;
  planner::schedule plan_;
  planner::schedule shorter_;
  std::mt19937_64 random_;
  std::vector<part> parts_;
  std::int64_t admitted_ = 0;
  std::set<key> forwards_;
  std::set<key> backwards_;
  std::vector<std::vector<std::int64_t>> updates_; // per stage and replica
};

TEST(ReplicaCursor, EveryScheduleEndsWheneverItIsStopped) {
  const std::vector<std::vector<int>> replica_lists{{1}, {1, 1}, {1, 1, 1, 1}, {2, 1}, {2, 2}, {3, 2, 1}, {1, 2, 1}};
  for (const auto& name : planner::schedule_names())
    for (const auto& replicas : replica_lists)
      for (const int window : {0, 1, 2, 5})
        for (std::uint64_t seed = 0; seed < 25; ++seed) {
          planner::schedule_request request{.name = name, .replicas = replicas, .window = window, .minibatches = 12};
          if (name == "gpipe" || name == "1f1b") request.microbatches = 3;
          try {
            planner::resolve_schedule(request);
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
} // namespace penstock::actors
