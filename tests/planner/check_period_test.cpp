// A long run is checked by its period: with the same verdict as by walking it, in the same words.
#include "planner/check_schedule.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/random_requests.hpp"

#include <gtest/gtest.h>

#include <array>

namespace penstock::planner::testing {
namespace {

/// Wrong by what the schedule says of its orders, or right after all.
void spoil(dice& d, schedule& s) {
  auto& stage = s.stages[static_cast<std::size_t>(d.between(0, static_cast<int>(s.stages.size()) - 1))];
  switch (d.between(0, 5)) {
  case 0:
    stage.credit += 1;
    break;
  case 1:
    stage.credit = std::max<std::int64_t>(1, stage.credit - 1);
    break;
  case 2:
    stage.readable_versions -= 1;
    break;
  case 3:
    s.updates.per_minibatch_group = !s.updates.per_minibatch_group;
    break;
  case 4:
    s.stashes_weights = !s.stashes_weights;
    break;
  default:
    stage.replicas += 1;
  }
}

TEST(CheckPeriod, AgreesWithTheWholeWalkOnRightAndWrongSchedules) {
  dice d(31);
  int by_period = 0, wrong = 0;
  for (int i = 0; i < 3000; ++i) {
    auto r = random_request(d);
    r.minibatches = d.between(60, 300);
    auto s = resolve_schedule(r);
    if (d.between(0, 2) > 0) spoil(d, s);
    SCOPED_TRACE(show(r));
    const auto orders = sequences_of(s);
    const auto whole = walk_schedule(s, orders);
    ASSERT_EQ(check_schedule(s), whole);
    const auto fewer = equivalent_minibatches(s, orders);
    by_period += fewer ? 1 : 0;
    wrong += whole ? 1 : 0;
    if (!fewer) continue;
    ASSERT_LT(*fewer, s.minibatches);
    auto shorter = s;
    shorter.minibatches = *fewer;
    ASSERT_EQ(walk_schedule(shorter, sequences_of(shorter)).has_value(), whole.has_value());
  }
  EXPECT_GT(by_period, 500);
  EXPECT_GT(wrong, 500);
}

TEST(CheckPeriod, IsFoundForEverySchedule) {
  for (const auto& name : schedule_names())
    for (const auto& replicas : {std::vector<int>{1}, {1, 1}, {1, 1, 1, 1, 1}, {2, 2}, {3, 2, 1}, {1, 2, 1}, {16, 1}})
      for (const char* in_flight : {"tight", "double", "full"})
        for (const int microbatches : {1, 5}) {
          auto r = request(name, replicas, microbatches, 1'000'000, in_flight);
          if (name.starts_with("pipedream") || name == "2bw") r.microbatches = 0;
          schedule s;
          try {
            s = resolve_schedule(r);
          } catch (const std::invalid_argument&) {
            continue; // not every schedule takes every replica list
          }
          SCOPED_TRACE(show(r));
          const auto fewer = equivalent_minibatches(s, sequences_of(s));
          ASSERT_TRUE(fewer);
          EXPECT_LT(*fewer, 1000);
          EXPECT_EQ((s.minibatches - *fewer) % dealing_period(s), 0);
          EXPECT_EQ(check_schedule(s), std::nullopt);
        }
}

/// The schedule's order, in which the version of a forward is wrong at one minibatch, or once in so many.
class spoilt_order final : public generator {
public:
  spoilt_order(const schedule& s, const worker& w, std::int64_t at, std::int64_t every)
      : order_(s, w), at_(at), every_(every) {}
  std::unique_ptr<generator> clone() const override { return std::make_unique<spoilt_order>(*this); }
  std::optional<action> peek() const override {
    auto a = order_.peek();
    if (a && a->kind == action_kind::forward && is_spoilt(a->minibatch)) a->version += 100;
    return a;
  }
  void advance() override { order_.advance(); }
  void end_after(std::int64_t minibatches) override { order_.end_after(minibatches); }
  bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const override {
    numbers.push_back(every_ > 0 ? (origin - at_) % every_ : origin - at_);
    return order_.append_state(origin, numbers);
  }

private:
  bool is_spoilt(std::int64_t minibatch) const {
    return every_ > 0 ? (minibatch - at_) % every_ == 0 : minibatch == at_;
  }
  sequence order_;
  std::int64_t at_, every_;
};

TEST(CheckPeriod, FindsAFaultHoweverLateItLurks) {
  const auto s = resolve_schedule(request("pipedream", {2, 1}, 1, 20'000));
  for (const std::int64_t every : {0, 7001}) {
    auto orders = sequences_of(s);
    orders[2] = sequence(std::make_unique<spoilt_order>(s, worker{1, 0}, 6999, every));
    EXPECT_EQ(equivalent_minibatches(s, orders), std::nullopt) << "it knows that it is not the same everywhere";
    EXPECT_EQ(check_schedule(s, orders), "stage 1 replica 0: forward of minibatch 6999 micro-batch 0 reads version "
                                         "7099, which no update before it writes");
  }
}

TEST(CheckPeriod, AHandMadeOrderIsWalked) {
  const auto s = resolve_schedule(request("1f1b", {1, 1}, 2, 100));
  std::vector<sequence> orders;
  for (const auto& w : workers_of(s))
    orders.emplace_back(s, write_out(sequence(s, w)));
  EXPECT_EQ(equivalent_minibatches(s, orders), std::nullopt);
  EXPECT_EQ(check_schedule(s, orders), std::nullopt);
}

} // namespace
} // namespace penstock::planner::testing
