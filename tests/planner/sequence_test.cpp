// A sequence is the list of the definitions, one action at a time, wherever its end is moved to.
#include "planner/sequence.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/plain_list.hpp"
#include "tests/planner/random_requests.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

std::vector<action> plain(const schedule& s, const worker& w) {
  if (s.name == "interleaved") return plain_interleaved(s, w);
  return plain_list(s, stages_at(s, w.position).front(), w.replica).actions();
}

TEST(Sequence, IsTheListOfTheDefinitions) {
  dice d(21);
  for (int i = 0; i < 4000; ++i) {
    const auto r = random_request(d);
    SCOPED_TRACE(show(r));
    const auto s = resolve_schedule(r);
    for (const auto& w : workers_of(s))
      ASSERT_EQ(write_out(sequence(s, w)), plain(s, w)) << "position " << w.position << " replica " << w.replica;
  }
}

/// Actions that a run may have begun when it is told to end after so many minibatches: nothing of a later one, but for
/// updates to which the replica adds nothing.
std::size_t most_begun(const std::vector<action>& list, std::int64_t minibatches) {
  const auto beyond = std::find_if(list.begin(), list.end(), [&](const action& a) {
    return a.kind != action_kind::update && a.minibatch >= minibatches;
  });
  return static_cast<std::size_t>(beyond - list.begin());
}

TEST(Sequence, EndedEarlierIsThatOfFewerMinibatches) {
  dice d(22);
  for (int i = 0; i < 6000; ++i) {
    const auto r = random_request(d);
    const auto s = resolve_schedule(r);
    auto shorter = s;
    shorter.minibatches = d.between(0, static_cast<int>(s.minibatches));
    SCOPED_TRACE(show(r) + " ended after " + std::to_string(shorter.minibatches));
    for (const auto& w : workers_of(s)) {
      const auto full = plain(s, w), part = plain(shorter, w);
      const auto begun =
          static_cast<std::size_t>(d.between(0, static_cast<int>(most_begun(full, shorter.minibatches))));
      sequence generated(s, w), listed(s, full);
      for (std::size_t k = 0; k < begun; ++k) {
        generated.advance();
        listed.advance();
      }
      generated.end_after(shorter.minibatches);
      listed.end_after(shorter.minibatches);
      // Whoever is past updates that the cut removes has nothing else left.
      const auto kept = std::min(begun, part.size());
      ASSERT_TRUE(std::equal(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(kept), full.begin()));
      const std::vector<action> rest(part.begin() + static_cast<std::ptrdiff_t>(kept), part.end());
      ASSERT_EQ(write_out(generated), rest) << "begun " << begun;
      ASSERT_EQ(write_out(listed), rest) << "begun " << begun;
    }
  }
}

TEST(Sequence, EndsNoLaterThanItDid) {
  const auto s = resolve_schedule(request("pipedream", {1, 1}, 1, 3));
  sequence order(s, {0, 0});
  order.end_after(5);
  EXPECT_EQ(write_out(order), write_out(sequence(s, {0, 0})));
}

TEST(Sequence, RefusesAnEndBeforeWhatLiesBehind) {
  const auto s = resolve_schedule(request("pipedream", {1, 1}, 1, 3));
  for (auto order : {sequence(s, {0, 0}), sequence(s, write_out(sequence(s, {0, 0})))}) {
    order.advance();
    order.advance(); // F0 F1
    const auto rest = write_out(order);
    EXPECT_THROW(order.end_after(1), std::logic_error);
    EXPECT_EQ(write_out(order), rest) << "it stays as it was";
  }
}

TEST(Sequence, ACopyGoesOnByItself) {
  const auto s = resolve_schedule(request("2bw", {2, 1}, 0, 6));
  sequence order(s, {0, 1});
  for (int i = 0; i < 5; ++i)
    order.advance();
  auto copy = order;
  const auto rest = write_out(order);
  copy.advance();
  copy.end_after(3);
  EXPECT_EQ(write_out(order), rest);
  copy = order;
  EXPECT_EQ(write_out(copy), rest);
}

TEST(Sequence, WithoutAnOrderIsAtItsEnd) {
  sequence none;
  EXPECT_FALSE(none.peek());
  EXPECT_FALSE(none.next());
  none.end_after(0);
  EXPECT_TRUE(write_out(none).empty());
}

TEST(Sequence, RefusesAWorkerThatIsNotThere) {
  const auto s = resolve_schedule(request("pipedream", {2, 1}, 1, 3));
  EXPECT_EQ(refusal_of([&] { sequence(s, {2, 0}); }), "a worker is at position 2, wanted 0 to 1");
  EXPECT_EQ(refusal_of([&] { sequence(s, {1, 1}); }), "a worker is replica 1 at position 1, wanted 0 to 0");
}

} // namespace
} // namespace penstock::planner::testing
