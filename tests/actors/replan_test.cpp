// The plan changes while training goes on: the oracle, told the same changes, leaves the same bits.
#include "actors/trace/plan_epochs.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"
#include "tools/trace/history.hpp"
#include "tools/trace/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <random>

namespace penstock::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int layers_of_the_tiny_network = 13;

template <class T>
T pick(std::mt19937_64& bits, std::initializer_list<T> from) {
  return *(from.begin() + static_cast<std::ptrdiff_t>(bits() % from.size()));
}

std::vector<int> random_cuts(std::mt19937_64& bits, std::size_t stages) {
  std::vector<int> cuts;
  while (cuts.size() + 1 < stages) {
    const int cut = 1 + static_cast<int>(bits() % (layers_of_the_tiny_network - 1));
    if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

enum class family { asynchronous, synchronous, double_buffered };

actors::pipeline_request random_request(std::mt19937_64& bits, family of, bool replicated, bool freezes = false) {
  actors::pipeline_request r;
  const auto stages = 1 + bits() % 4;
  r.replicas.assign(stages, 1);
  for (auto& count : r.replicas)
    if (replicated) count = pick(bits, {1, 1, 2, 3});
  r.cuts = random_cuts(bits, stages);
  r.threads = 1;
  switch (of) {
  case family::asynchronous:
    r.schedule = pick(bits, {"pipedream", "pipedream", "pipedream-vertical-sync"});
    if (r.schedule == "pipedream-vertical-sync") r.replicas.assign(stages, r.replicas.front());
    if (r.schedule == "pipedream") r.update_lag = {pick(bits, {0, 0, 1, 2})};
    break;
  case family::synchronous:
    r.schedule = pick(bits, {"1f1b", "gpipe", "model-parallel", "zb-h1", "zb-h2", "interleaved"});
    r.microbatches = 4; // one stage with the same M has the same bits
    if (r.schedule == "interleaved") {
      r.replicas.assign(stages, r.replicas.front());
      r.chunks = 1 + static_cast<int>(bits() % 3);
      r.cuts = random_cuts(bits, stages * static_cast<std::size_t>(r.chunks));
    }
    break;
  case family::double_buffered:
    r.schedule = "2bw";
    r.replicas.assign(std::min<std::size_t>(stages, 3), 1);
    r.cuts = random_cuts(bits, r.replicas.size());
    r.microbatches = 4;
    break;
  }
  if (bits() % 3 == 0) r.recompute.assign(r.replicas.size() * static_cast<std::size_t>(chunks_of(r)), true);
  if (r.schedule != "interleaved" && freezes && bits() % 2 == 0)
    r.frozen_until = static_cast<int>(bits() % layers_of_the_tiny_network); // fc2, the last, is active
  if (r.schedule != "interleaved")
    r.in_flight = planner::parse_in_flight(of == family::double_buffered ? "tight" : pick(bits, {"tight", "double"}));
  return r;
}

// Drains at the changes, at evaluations or not, and at checkpoints' steps.
run_setup random_run(std::mt19937_64& bits, family of, bool replicated, bool freezes = false) {
  auto o = tiny_options();
  static_cast<actors::pipeline_request&>(o) = random_request(bits, of, replicated, freezes);
  o.steps = pick(bits, {6, 11, 14});
  o.eval_every = pick(bits, {-1, 1, 2});
  return o;
}

std::vector<std::pair<std::int64_t, actors::pipeline_request>>
random_changes(std::mt19937_64& bits, const run_setup& o, family of, bool replicated, bool freezes = false) {
  std::vector<std::pair<std::int64_t, actors::pipeline_request>> changes;
  for (std::int64_t step = 1; step < o.steps; ++step)
    if (bits() % 4 == 0) changes.emplace_back(step, random_request(bits, of, replicated, freezes));
  return changes;
}

std::string text_of(const run_setup& o, const tiny_extras& extras) {
  std::string text = o.schedule;
  for (const auto& [step, r] : extras.changes) {
    text += "; after " + std::to_string(step) + " " + r.schedule + " v" + std::to_string(r.chunks) + " x";
    for (const int count : r.replicas)
      text += " " + std::to_string(count);
    if (r.frozen_until > 0) text += " frozen until " + std::to_string(r.frozen_until);
  }
  return text;
}

class PlanChanges : public ::testing::TestWithParam<int> {};

TEST_P(PlanChanges, LeaveTheOraclesBitsInOneProcessAndInMany) {
  std::mt19937_64 bits(static_cast<std::uint64_t>(GetParam()) * 104729 + 7);
  for (int run = 0; run < 25; ++run) {
    const auto of = pick(bits, {family::asynchronous, family::synchronous, family::double_buffered});
    const bool freezes = run % 2 == 1;
    auto o = random_run(bits, of, true, freezes);
    tiny_extras extras;
    extras.changes = random_changes(bits, o, of, true, freezes);
    SCOPED_TRACE(text_of(o, extras));
    o.executor = actors::executor_kind::oracle;
    const auto wanted = train_tiny(o, extras).summary;
    o.executor = actors::executor_kind::actors;
    int fewest = 4; // every process needs a worker in each plan
    const auto workers = [](const std::vector<int>& replicas) {
      return std::accumulate(replicas.begin(), replicas.end(), 0);
    };
    fewest = std::min(fewest, workers(o.replicas));
    for (const auto& [step, r] : extras.changes)
      fewest = std::min(fewest, workers(r.replicas));
    const int ranks = 1 + static_cast<int>(bits() % static_cast<std::uint64_t>(fewest));
    const testing_support::temporary_folder folder;
    if (run % 4 == 0) o.trace = folder / "run.pftrace";
    const auto got = ranks == 1 ? train_tiny(o, extras).summary : train_tiny_ranks(o, ranks, extras, bits()).summary;
    EXPECT_EQ(got.weights_sha256, wanted.weights_sha256) << ranks << " ranks";
    EXPECT_EQ(got.state_sha256, wanted.state_sha256) << ranks << " ranks";
    EXPECT_EQ(got.drains, wanted.drains);
    ASSERT_EQ(got.plan_changes.size(), extras.changes.size());
    for (std::size_t i = 0; i < extras.changes.size(); ++i)
      EXPECT_EQ(got.plan_changes[i].step, extras.changes[i].first);
    if (o.trace.empty()) continue;
    const auto traced = actors::read_trace(o.trace);
    ASSERT_EQ(traced.header.changes.size(), extras.changes.size());
    const auto history = actors::check_history(traced);
    EXPECT_EQ(history.found, actors::history_verdict::outcome::holds) << history.line;
  }
}
INSTANTIATE_TEST_SUITE_P(Part, PlanChanges, ::testing::Range(0, 8));

TEST(PlanChange, OfASynchronousPipelineWithoutReplicasChangesNoBit) {
  std::mt19937_64 bits(5);
  for (int run = 0; run < 20; ++run) {
    auto o = random_run(bits, family::synchronous, false);
    const auto without = train_tiny(o).summary;
    tiny_extras extras;
    extras.changes = random_changes(bits, o, family::synchronous, false);
    SCOPED_TRACE(text_of(o, extras));
    const auto with = train_tiny(o, extras).summary;
    EXPECT_EQ(with.weights_sha256, without.weights_sha256);
    EXPECT_EQ(with.state_sha256, without.state_sha256);
  }
}

// A layer actor must have a border at its place.
TEST(PlanChange, ThatCannotBePreparedLeavesThePlanThatRuns) {
  auto o = tiny_options();
  o.schedule = "1f1b";
  o.replicas = {1, 1};
  o.microbatches = 2;
  o.steps = 8;
  auto impossible = static_cast<actors::pipeline_request&>(o);
  impossible.microbatches = 9; // of batches of 8
  for (const int ranks : {1, 2}) {
    const auto drains_there = o;
    tiny_extras same, other;
    same.changes = {{3, drains_there}};
    other.changes = {{3, impossible}};
    const auto train = [&](const tiny_extras& extras) {
      return ranks == 1 ? train_tiny(o, extras) : train_tiny_ranks(o, ranks, extras);
    };
    const auto wanted = train(same);
    const auto run = train(other);
    EXPECT_EQ(run.summary.weights_sha256, wanted.summary.weights_sha256);
    EXPECT_EQ(run.summary.drains, wanted.summary.drains);
    EXPECT_EQ(wanted.summary.plan_changes.size(), 1U);
    EXPECT_TRUE(run.summary.plan_changes.empty());
    EXPECT_THAT(run.seen.notes, Contains(AllOf(HasSubstr("the plan was not changed after step 3"),
                                               HasSubstr("batch 8 cannot be split into 9 micro-batches"))));
  }
}

TEST(PlanChange, IsToldAndStandsInTheSummary) {
  auto o = tiny_options();
  o.replicas = {1, 1};
  o.steps = 9;
  tiny_extras extras;
  actors::pipeline_request three;
  three.replicas = {1, 1, 1};
  three.threads = 1;
  extras.changes = {{4, three}};
  const auto run = train_tiny(o, extras);
  EXPECT_EQ(run.summary.plan->stages.size(), 3U);
  EXPECT_EQ(run.summary.stages.size(), 3U);
  EXPECT_THAT(run.summary.drains, ElementsAre(4, 6, 9)) << "with the epoch's evaluation";
  EXPECT_THAT(run.seen.notes, Contains(HasSubstr("the plan changed after step 4: ")));
}

TEST(PlanChange, IsInTheTraceWithItsStretchAndItsEvaluations) {
  const testing_support::temporary_folder folder;
  auto o = tiny_options();
  o.replicas = {1, 1};
  o.steps = 9;
  o.eval_every = 1;
  tiny_extras extras;
  actors::pipeline_request three;
  three.replicas = {1, 1, 1};
  three.threads = 1;
  extras.changes = {{4, three}};
  for (const int ranks : {1, 2}) {
    o.trace = folder / ("run" + std::to_string(ranks));
    const auto summary = ranks == 1 ? train_tiny(o, extras).summary : train_tiny_ranks(o, ranks, extras).summary;
    const auto traced = actors::read_trace(o.trace);
    ASSERT_EQ(traced.header.changes.size(), 1U);
    EXPECT_EQ(traced.header.changes[0].first_minibatch, 4);
    EXPECT_EQ(traced.header.changes[0].first_stretch, 1);
    EXPECT_EQ(traced.header.changes[0].plan.stages, summary.plan->stages);
    const auto history = actors::check_history(traced);
    EXPECT_EQ(history.found, actors::history_verdict::outcome::holds) << history.line;
    const auto epochs = actors::split_by_epoch(traced.header, traced.records);
    for (const auto& epoch : epochs) {
      EXPECT_TRUE(epoch.strays.empty()) << "plan epoch " << epoch.number;
      EXPECT_TRUE(std::any_of(epoch.records.begin(), epoch.records.end(),
                              [](const auto& r) { return r.kind == actors::span_kind::forward; }));
    }
    const auto& after = epochs[1].records; // the evaluations are those of after the change
    EXPECT_TRUE(std::any_of(after.begin(), after.end(),
                            [](const auto& r) { return r.kind == actors::span_kind::evaluate && r.stage == 2; }));
    ASSERT_EQ(actors::summarize(traced).epochs.size(), 2U);
  }
}

TEST(PlanChange, IsPartOfARunThatIsResumed) {
  const testing_support::temporary_folder folder;
  auto o = tiny_options();
  o.replicas = {1, 1};
  o.steps = 9;
  o.eval_every = -1;
  o.checkpoint = folder / "whole";
  o.checkpoint_every = 5;
  tiny_extras extras;
  actors::pipeline_request three;
  three.replicas = {1, 1, 1};
  three.threads = 1;
  extras.changes = {{3, three}};
  const auto whole = train_tiny(o, extras).summary;
  o.checkpoint = folder / "parts";
  o.steps = 5;
  train_tiny(o, extras);
  auto rest = o;
  static_cast<actors::pipeline_request&>(rest) = three;
  rest.resume = true;
  rest.steps = 9;
  const auto resumed = train_tiny(rest).summary;
  EXPECT_THAT(whole.drains, ElementsAre(3, 5, 9));
  EXPECT_EQ(resumed.drains, whole.drains);
  EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256);
  EXPECT_EQ(resumed.state_sha256, whole.state_sha256);
}

// -- wished for while training goes on ----------------------------------------------------

struct wish {
  std::int64_t made_at = 2; // step
  std::vector<int> replicas{1, 1, 1};
  std::optional<std::int64_t> step{};
};

// A run with those wishes, and how they were answered. Steps are told by a thread of their own, so that a wish is made
// some steps late on a busy machine: the run is so long that those to come are still to come.
constexpr std::int64_t many_steps = 2000;
std::pair<training_result, std::vector<std::string>> run_with(const std::vector<wish>& wishes, int ranks) {
  auto o = tiny_options();
  o.replicas = {1, 1};
  o.steps = many_steps;
  o.eval_every = -1;
  std::mutex mutex;
  std::vector<std::string> answers(wishes.size(), "none");
  tiny_extras extras;
  extras.at_step = [&](std::int64_t step, actors::run_control& control) {
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      if (wishes[i].made_at != step) continue;
      actors::pipeline_request r;
      r.replicas = wishes[i].replicas;
      r.threads = 1;
      control.plan_wishes.post(actors::settle_request(r, *tiny_residual_network(), {ranks, 0}), wishes[i].step,
                               [&, i](const std::string& refusal) {
                                 const std::lock_guard lock(mutex);
                                 answers[i] = refusal.empty() ? "took place" : refusal;
                               });
    }
  };
  auto run = ranks == 1 ? train_tiny(o, extras) : train_tiny_ranks(o, ranks, extras);
  return {std::move(run), answers};
}

TEST(PlanWish, TakesPlaceAtTheNextDrainOrAtAStepToCome) {
  for (const int ranks : {1, 2}) {
    const auto step = many_steps - 2;
    const auto [run, answers] = run_with({{.made_at = 2}, {.made_at = 6, .replicas = {1, 2}, .step = step}}, ranks);
    EXPECT_THAT(answers, ElementsAre("took place", "took place"));
    ASSERT_EQ(run.summary.plan_changes.size(), 2U);
    EXPECT_GE(run.summary.plan_changes[0].step, 2);
    EXPECT_EQ(run.summary.plan_changes[1].step, step);
    EXPECT_EQ(run.summary.steps, many_steps);
    EXPECT_EQ(run.summary.plan->stages.back().replicas, 2);
  }
}

TEST(PlanWish, IsRefusedWithTheReasonAndTheRunGoesOn) {
  const auto [run, answers] = run_with({{.made_at = 8, .step = 2},
                                        {.made_at = 3, .step = many_steps},
                                        {.made_at = 3, .step = many_steps - 1},
                                        {.made_at = 4, .replicas = {1}, .step = many_steps - 1},
                                        {.made_at = many_steps}},
                                       1);
  EXPECT_THAT(answers[0], HasSubstr("step 2 has passed"));
  EXPECT_THAT(answers[1], HasSubstr("step 2000 is not before the run's end"));
  EXPECT_EQ(answers[2], "took place");
  EXPECT_THAT(answers[3], HasSubstr("the plan changes after step 1999 already"));
  EXPECT_THAT(answers[4], HasSubstr("end"));
  EXPECT_EQ(run.summary.steps, many_steps);
}

} // namespace
} // namespace penstock::testing
