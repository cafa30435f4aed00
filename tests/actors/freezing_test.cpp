// Plans with a frozen prefix: what actors leave is what the oracle leaves, and a frozen weight never changes a bit.
#include "kernels/check.hpp"
#include "kernels/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_sequences.hpp"
#include "tests/support/tiny_streams.hpp"
#include "tests/support/tiny_training.hpp"
#include "tools/trace/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace penstock::testing {
namespace {

using actors::executor_kind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Of the tiny network: conv1 bn1 relu1 conv2 bn2 add relu2 pool flatten drop fc1 relu3 fc2.
constexpr int inside_a_block = 2; // conv1 and bn1
constexpr int a_block = 7;        // up to relu2
constexpr int all_but_the_head = 12;

struct setting {
  std::string schedule;
  std::vector<int> replicas;
  std::vector<int> cuts;
  int frozen_until = 0;
  int microbatches = 0;
};

std::string to_text(const setting& s) {
  return s.schedule + " on " + ::testing::PrintToString(s.replicas) + " cut at " + ::testing::PrintToString(s.cuts) +
         ", frozen until " + std::to_string(s.frozen_until) + ", M " + std::to_string(s.microbatches);
}

run_setup options_of(const setting& s) {
  auto o = tiny_options();
  o.schedule = s.schedule;
  o.replicas = s.replicas;
  o.cuts = s.cuts;
  o.frozen_until = s.frozen_until;
  o.microbatches = s.microbatches;
  return o;
}

void expect_alike(const training_result& found, const training_result& wanted) {
  EXPECT_EQ(found.summary.weights_sha256, wanted.summary.weights_sha256);
  EXPECT_EQ(found.summary.state_sha256, wanted.summary.state_sha256);
  ASSERT_EQ(found.seen.steps.size(), wanted.seen.steps.size());
  for (std::size_t i = 0; i < found.seen.steps.size(); ++i)
    EXPECT_EQ(found.seen.steps[i].loss, wanted.seen.steps[i].loss) << i;
  ASSERT_EQ(found.seen.evaluations.size(), wanted.seen.evaluations.size());
  for (std::size_t i = 0; i < found.seen.evaluations.size(); ++i)
    EXPECT_EQ(found.seen.evaluations[i].found.loss, wanted.seen.evaluations[i].found.loss);
}

void expect_same_as_oracle(run_setup o, const tiny_extras& extras = {}) {
  const auto found = train_tiny(o, extras);
  o.executor = executor_kind::oracle;
  expect_alike(found, train_tiny(o, extras));
}

named_tensors weights_after(run_setup o, const tiny_extras& extras, memory_pool& pool) {
  const testing_support::temporary_folder folder;
  o.save_weights = folder / "weights.safetensors";
  train_tiny(o, extras);
  return read_safetensors(o.save_weights, pool).tensors;
}

bool is_equal(const tensor& a, const tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// The stages' cuts, the first of them before, at and behind where the freeze ends.
std::vector<setting> settings_of(const std::string& schedule) {
  const bool is_grouped = schedule.starts_with("pipedream");
  const int microbatches = is_grouped ? 0 : 4;
  std::vector<setting> all{
      {schedule, {1}, {}, a_block, microbatches},
      {schedule, {1, 1}, {9}, inside_a_block, microbatches},
      {schedule, {1, 1}, {9}, a_block, microbatches},
      {schedule, {1, 1, 1}, {8, 10}, a_block, microbatches},
      {schedule, {1, 1}, {7}, a_block, microbatches},
      {schedule, {1, 1, 1}, {4, 9}, a_block, microbatches},
      {schedule, {1, 1, 1, 1}, {3, 7, 10}, a_block, microbatches},
      {schedule, {1, 1, 1}, {3, 12}, all_but_the_head, microbatches},
  };
  if (schedule != "pipedream-vertical-sync" && schedule != "interleaved") {
    all.push_back({schedule, {2, 1}, {9}, a_block, microbatches});
    all.push_back({schedule, {2}, {}, all_but_the_head, microbatches});
    all.push_back({schedule, {1, 2, 1}, {8, 11}, inside_a_block, microbatches});
    all.push_back({schedule, {2, 1, 1}, {4, 9}, a_block, microbatches});
    all.push_back({schedule, {1, 3, 2}, {4, 8}, a_block, microbatches});
    all.push_back({schedule, {1, 2, 1}, {3, 7}, a_block, microbatches});
  }
  return all;
}

class Freezing : public ::testing::TestWithParam<std::string> {};

TEST_P(Freezing, ActorsLeaveTheOraclesBits) {
  for (const auto& s : settings_of(GetParam())) {
    SCOPED_TRACE(to_text(s));
    expect_same_as_oracle(options_of(s));
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Freezing,
                         ::testing::Values("model-parallel", "gpipe", "1f1b", "pipedream", "pipedream-vertical-sync",
                                           "pipedream-naive", "2bw", "zb-h1", "zb-h2"),
                         [](const auto& p) {
                           std::string name;
                           bool begins = true;
                           for (const char c : p.param) {
                             if (c != '-') name += begins ? static_cast<char>(std::toupper(c)) : c;
                             begins = c == '-';
                           }
                           return name;
                         });

TEST(FrozenPrefix, UnreplicatedSynchronousStagesLeaveTheBitsOfOneStage) {
  for (const int frozen_until : {inside_a_block, a_block, all_but_the_head})
    for (const auto* schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2"}) {
      const auto one = train_tiny(options_of({"1f1b", {1}, {}, frozen_until, 4}));
      for (const auto& cuts : std::vector<std::vector<int>>{{2}, {4}, {9}, {5, 10}, {3, 7, 12}}) {
        const setting s{schedule, std::vector<int>(cuts.size() + 1, 1), cuts, frozen_until, 4};
        SCOPED_TRACE(to_text(s));
        expect_alike(train_tiny(options_of(s)), one);
      }
    }
}

TEST(FrozenPrefix, KeepsItsWeightsAndStatisticsAndTheRestIsTrained) {
  memory_pool pool;
  auto o = options_of({"pipedream", {2, 1}, {9}, a_block});
  o.eval_only = true;
  const auto before = weights_after(o, {}, pool);
  o.eval_only = false;
  const auto after = weights_after(o, {}, pool);
  for (const auto& [name, t] : before) {
    const bool is_frozen = name.starts_with("conv") || name.starts_with("bn");
    EXPECT_EQ(is_equal(t, after.at(name)), is_frozen) << name;
  }
}

TEST(FrozenPrefix, ChangesWhatIsTrained) {
  const auto thawed = train_tiny(options_of({"1f1b", {1, 1}, {9}, 0, 2})).summary;
  const auto frozen = train_tiny(options_of({"1f1b", {1, 1}, {9}, a_block, 2})).summary;
  EXPECT_NE(frozen.weights_sha256, thawed.weights_sha256);
  EXPECT_EQ(frozen.parameters, thawed.parameters);
  EXPECT_EQ(thawed.frozen_parameters, 0);
  EXPECT_EQ(frozen.frozen_parameters, 3 * 8 * 9 + 16 + 8 * 8 * 9 + 16);
  EXPECT_EQ(frozen.freeze, "frozen until pool: 824 of 2,973 parameters");
}

TEST(FrozenPrefix, KeepsNothingForBackward) {
  const auto peak = [](int frozen_until) {
    auto o = options_of({"gpipe", {1, 1}, {10}, frozen_until, 4}); // four forwards are held
    return train_tiny(o).summary.stages.front().peak_memory_bytes;
  };
  const auto thawed = peak(0);
  EXPECT_LT(peak(inside_a_block), thawed);
  EXPECT_LT(peak(a_block), thawed * 2 / 3) << "no activations, no gradients, no momentum";
}

TEST(FrozenPrefix, OfAStageThatRecomputesIsNotComputedAgain) {
  for (const auto* schedule : {"pipedream", "1f1b", "zb-h1"})
    for (const int frozen_until : {inside_a_block, a_block}) {
      auto o = options_of({schedule, {1, 1}, {9}, frozen_until, std::string_view(schedule) == "pipedream" ? 0 : 4});
      const auto kept = train_tiny(o);
      o.recompute = {true, false};
      SCOPED_TRACE(std::string(schedule) + " frozen until " + std::to_string(frozen_until));
      expect_alike(train_tiny(o), kept);
      expect_same_as_oracle(o);
    }
}

TEST(FrozenPrefix, EveryOptimizerAndClippingAgreeWithTheOracle) {
  for (const auto* optimizer : {"adam", "adamw", "asgd"}) {
    auto o = options_of({"1f1b", {2, 1}, {9}, a_block, 4});
    o.optimizer.name = optimizer;
    o.optimizer.momentum = 0;
    o.lr.base = 1e-3F;
    o.clip_norm = 0.05;
    SCOPED_TRACE(optimizer);
    expect_same_as_oracle(o);
  }
}

TEST(FrozenPrefix, TheNormIsOfWhatIsTrained) {
  auto o = options_of({"1f1b", {1}, {}, a_block, 4});
  o.clip_norm = 0.05;
  const auto one = train_tiny(o);
  o.replicas = {1, 1};
  o.cuts = {9};
  expect_alike(train_tiny(o), one);
}

TEST(FrozenPrefix, OnSeveralRanksLeavesTheSameBits) {
  for (const auto& s : {setting{"pipedream", {2, 1}, {9}, a_block}, setting{"1f1b", {2, 2}, {9}, inside_a_block, 4},
                        setting{"pipedream", {1, 1}, {9}, a_block}, setting{"1f1b", {2, 1, 1}, {4, 9}, a_block, 4},
                        setting{"pipedream", {1, 2, 1}, {4, 7}, a_block}, setting{"2bw", {1, 1}, {7}, a_block, 4}}) {
    SCOPED_TRACE(to_text(s));
    expect_alike(train_tiny_ranks(options_of(s), 2), train_tiny(options_of(s)));
  }
}

// Each source admits what is dealt to its own replicas: fewer than one for each would come to nothing.
TEST(FrozenStage, OfMoreReplicasThanTheSourceHasCreditsRunsOnAsManyRanks) {
  for (const auto* schedule : {"pipedream", "1f1b"}) {
    auto o = options_of({schedule, {4, 1}, {7}, a_block, std::string_view(schedule) == "1f1b" ? 5 : 0});
    SCOPED_TRACE(schedule);
    const auto one = train_tiny(o);
    for (const int ranks : {2, 5})
      expect_alike(train_tiny_ranks(o, ranks), one);
  }
}

TEST(FrozenStage, RunsAheadNoFurtherThanTheSourceMayAdmit) {
  for (const auto& s : {setting{"pipedream", {1, 1, 1}, {3, 7}, a_block}, setting{"1f1b", {2, 1}, {7}, a_block, 4}})
    for (const std::int64_t ahead : {1, 3, 9}) {
      const testing_support::temporary_folder folder;
      auto o = options_of(s);
      o.ahead = ahead;
      SCOPED_TRACE(to_text(s) + ", ahead " + std::to_string(ahead));
      expect_same_as_oracle(o);
      o.trace = folder / "run.pftrace";
      const auto found = train_tiny(o);
      const auto& plan = *found.summary.plan;
      EXPECT_EQ(plan.ahead, ahead);
      const auto traced = actors::read_trace(o.trace);
      const auto history = actors::check_history(traced);
      EXPECT_EQ(history.found, actors::history_verdict::outcome::holds) << history.line;
      const auto dealing = planner::schedule_of(plan);
      std::map<std::int32_t, std::int64_t> begun; // by stretch, without the first active stage's backward
      for (const auto& r : traced.records) {
        if (r.kind == actors::span_kind::forward && r.stage == 0) ++begun[r.stretch];
        if (r.kind == actors::span_kind::backward && r.stage == dealing.frozen_stages) --begun[r.stretch];
        // A credit is back when a backward is handed over, two of which may have to wait for the device.
        EXPECT_LE(begun[r.stretch], dealing.source_credit() + 2);
      }
    }
}

TEST(FrozenStage, KeepsNothingAndHasNoUpdates) {
  auto o = options_of({"pipedream", {1, 1}, {7}, a_block});
  const auto found = train_tiny(o).summary;
  EXPECT_EQ(found.stages[0].updates, 0);
  EXPECT_GT(found.stages[1].updates, 0);
  EXPECT_EQ(found.stages[0].peak_weight_bytes, found.stages[0].weight_bytes) << "one version, ever";
  o.frozen_until = 0;
  EXPECT_LT(found.stages[0].peak_memory_bytes, train_tiny(o).summary.stages[0].peak_memory_bytes * 2 / 3);
}

// -- other models ------------------------------------------------------------------------

TEST(FrozenPrefix, ALossAmongItIsNotTrainedBy) {
  const tiny_sequences samples(40), test(9, 2);
  const auto net = tiny_sequence_model(); // the side loss is behind layer parity_head, 8
  for (const int frozen_until : {2, 5, 9, 11}) {
    const tiny_extras extras{.net = net, .train = &samples, .test = &test};
    for (const auto* schedule : {"1f1b", "pipedream"}) {
      SCOPED_TRACE(std::string(schedule) + ", frozen until " + std::to_string(frozen_until));
      auto o = options_of({schedule, {1, 1}, {12}, frozen_until, std::string_view(schedule) == "1f1b" ? 2 : 0});
      o.lr.base = 0.02F;
      expect_same_as_oracle(o, extras);
    }
  }
}

// What only that loss reads crosses a cut as nothing: first, before parity_head.
TEST(FrozenPrefix, WhatNobodyNeedsIsNotSentAcrossACut) {
  const tiny_sequences samples(40), test(9, 2);
  const tiny_extras extras{.net = tiny_sequence_model(), .train = &samples, .test = &test};
  for (const int frozen_until : {8, 9, 10}) {
    const auto one = train_tiny(options_of({"1f1b", {1}, {}, frozen_until, 2}), extras);
    const auto o = options_of({"1f1b", {1, 1, 1}, {8, 12}, frozen_until, 2});
    SCOPED_TRACE(frozen_until);
    expect_alike(train_tiny(o, extras), one);
    expect_alike(train_tiny_ranks(o, 3, extras), one);
    expect_same_as_oracle(o, extras);
  }
}

TEST(FrozenPrefix, ATieWithAnActiveUseIsRefused) {
  const tiny_sequences samples(40);
  auto o = options_of({"1f1b", {1}, {}, 5, 2});
  EXPECT_THAT([&] { train_tiny(o, {.net = tiny_sequence_model(0.1F, true), .train = &samples, .test = &samples}); },
              ThrowsMessage<usage_error>(AllOf(HasSubstr("embed.weight"), HasSubstr("no layer can be frozen"))));
}

TEST(FrozenPrefix, HandsItsStateFromMinibatchToMinibatch) {
  const tiny_stream train(400), test(90, 2);
  const auto net = tiny_language_model();
  for (const int frozen_until : {2, 3, 4})
    for (const auto& s :
         {setting{"1f1b", {1, 1}, {5}, frozen_until, 2}, setting{"pipedream", {2, 1, 1}, {2, 5}, frozen_until},
          setting{"pipedream", {2, 1}, {5}, frozen_until}}) {
      SCOPED_TRACE(to_text(s));
      auto o = options_of(s);
      o.batch = 4;
      expect_same_as_oracle(o, {.net = net, .train = &train, .test = &test});
    }
}

// -- what it is refused for ---------------------------------------------------------------

TEST(FrozenStage, IsRefusedWhereAWorkerHostsSeveral) {
  auto o = options_of({"interleaved", {1, 1}, {3, 7, 10}, a_block, 4});
  EXPECT_THAT([&] { train_tiny(o); }, ThrowsMessage<usage_error>(HasSubstr("interleaved cannot")));
  o.cuts = {8, 10, 12};
  EXPECT_NO_THROW(expect_same_as_oracle(o)) << "a part of the first one may be";
}

TEST(FrozenPrefix, IsNeverAllThatIsTrained) {
  EXPECT_THAT(
      [] {
        train_tiny(options_of({"1f1b", {1}, {}, 13}));
      },
      ThrowsMessage<usage_error>(HasSubstr("wanted one of its 13 layers")));
  EXPECT_NO_THROW(train_tiny(options_of({"1f1b", {1}, {}, all_but_the_head})));
}

// -- changes -------------------------------------------------------------------------------

actors::pipeline_request request_of(const setting& s) {
  return options_of(s);
}

TEST(FreezeChange, DeeperAndThawedAgreesWithTheOracle) {
  for (const auto* schedule : {"pipedream", "1f1b", "2bw"}) {
    const int m = std::string_view(schedule) == "pipedream" ? 0 : 4;
    auto o = options_of({schedule, {2, 1}, {9}, 0, m});
    if (std::string_view(schedule) == "2bw") o.replicas = {1, 1};
    o.steps = 14;
    tiny_extras extras;
    for (const auto& [step, depth] :
         std::vector<std::pair<int, int>>{{3, inside_a_block}, {6, a_block}, {9, 0}, {12, 5}}) {
      auto next = request_of({schedule, o.replicas, {9}, depth, m});
      next.threads = 1;
      extras.changes.emplace_back(step, next);
    }
    SCOPED_TRACE(schedule);
    const auto found = train_tiny(o, extras);
    EXPECT_THAT(found.seen.notes, Contains(AllOf(HasSubstr("frozen until relu1"),
                                                 HasSubstr("is dropped, and their running statistics"))));
    EXPECT_THAT(found.seen.notes, Contains(HasSubstr("nothing is frozen any more")));
    EXPECT_EQ(found.summary.plan_changes.size(), 4U);
    EXPECT_EQ(found.summary.plan_changes[1].plan->frozen_until, a_block);
    auto judged = o;
    judged.executor = executor_kind::oracle;
    expect_alike(found, train_tiny(judged, extras));
    expect_alike(train_tiny_ranks(o, 2, extras), found);
  }
}

TEST(FreezeChange, ToAndFromWhollyFrozenStagesAgreesWithTheOracle) {
  for (const auto* schedule : {"pipedream", "1f1b", "2bw"}) {
    const int m = std::string_view(schedule) == "pipedream" ? 0 : 4;
    const auto plan = [&](std::vector<int> replicas, std::vector<int> cuts, int depth) {
      auto r = request_of({schedule, std::move(replicas), std::move(cuts), depth, m});
      r.threads = 1;
      return r;
    };
    const testing_support::temporary_folder folder;
    auto o = options_of({schedule, {1, 1, 1}, {4, 9}, 0, m});
    o.steps = 16;
    tiny_extras extras;
    extras.changes = {{2, plan({1, 1, 1}, {4, 9}, 4)},  {4, plan({1, 1, 1}, {4, 9}, a_block)},
                      {7, plan({2, 1}, {7}, a_block)},  {10, plan({1, 1}, {8}, 0)},
                      {13, plan({1, 1}, {7}, a_block)}, {15, plan({1}, {}, all_but_the_head)}};
    SCOPED_TRACE(schedule);
    auto judged = o;
    judged.executor = executor_kind::oracle;
    const auto wanted = train_tiny(judged, extras);
    o.trace = folder / "run.pftrace";
    const auto found = train_tiny(o, extras);
    expect_alike(found, wanted);
    EXPECT_EQ(found.summary.plan_changes.size(), 6U);
    const auto history = actors::check_history(actors::read_trace(o.trace));
    EXPECT_EQ(history.found, actors::history_verdict::outcome::holds) << history.line;
    o.trace.clear();
    extras.changes.pop_back(); // every rank needs a worker
    judged.steps = o.steps = 15;
    expect_alike(train_tiny_ranks(o, 2, extras), train_tiny(judged, extras));
  }
}

TEST(FreezeChange, SendsNoOptimizerStateOfWhatIsFrozen) {
  const auto bytes_moved = [](int before, int behind) {
    auto o = options_of({"1f1b", {1, 1}, {9}, before, 4});
    o.steps = 4;
    auto swapped = request_of({"1f1b", {1, 1}, {9}, behind, 4});
    swapped.ranks = {{1}, {0}};
    return train_tiny_ranks(o, 2, {.changes = {{2, swapped}}}).summary.plan_changes.at(0).bytes_moved;
  };
  const auto thawed = bytes_moved(0, 0);
  const std::int64_t frozen = 4 * (3 * 8 * 9 + 8 * 8 * 9 + 2 * 16); // a momentum as large as the weights, or padded
  EXPECT_LE(bytes_moved(0, a_block), thawed - frozen);
  EXPECT_EQ(bytes_moved(a_block, a_block), bytes_moved(0, a_block));
  EXPECT_EQ(bytes_moved(a_block, 0), bytes_moved(0, a_block)) << "it begins anew";
}

TEST(FreezeChange, OfASynchronousPipelineWithoutReplicasDoesNotDependOnItsStages) {
  const auto run = [](const std::vector<int>& cuts) {
    const std::vector<int> replicas(cuts.size() + 1, 1);
    auto o = options_of({"1f1b", replicas, cuts, 0, 4});
    o.steps = 9;
    tiny_extras extras;
    for (const auto& [step, depth] : std::vector<std::pair<int, int>>{{3, 5}, {6, 2}})
      extras.changes.emplace_back(step, request_of({"1f1b", replicas, cuts, depth, 4}));
    return train_tiny(o, extras);
  };
  const auto one = run({});
  expect_alike(run({8}), one);
  expect_alike(run({6, 10}), one);
}

TEST(FreezeChange, BatchNormTakesTheMeanOverReplicasAndKeepsIt) {
  memory_pool pool;
  const testing_support::temporary_folder folder;
  auto o = options_of({"1f1b", {3, 1}, {9}, 0, 3});
  o.steps = 5;
  const auto at_the_freeze = weights_after(o, {}, pool);
  o.steps = 11;
  tiny_extras extras;
  extras.changes = {{5, request_of({"1f1b", {3, 1}, {9}, a_block, 3})},
                    {8, request_of({"1f1b", {2, 1}, {9}, a_block, 3})}};
  const auto after = weights_after(o, extras, pool);
  for (const auto& [name, t] : at_the_freeze)
    EXPECT_EQ(is_equal(t, after.at(name)), name.starts_with("conv") || name.starts_with("bn")) << name;
}

TEST(FreezeChange, StateBetweenMinibatchesGoesOnAcrossIt) {
  const tiny_stream train(400), test(90, 2);
  auto o = options_of({"pipedream", {2, 1}, {3}, 0});
  o.batch = 4;
  o.lr.base = 0.5F;
  o.steps = 20;
  tiny_extras extras{.net = tiny_language_model(), .train = &train, .test = &test};
  for (const auto& [step, depth] : std::vector<std::pair<int, int>>{{4, 3}, {10, 4}, {14, 0}})
    extras.changes.emplace_back(step, request_of({"pipedream", {2, 1}, {3}, depth}));
  const auto found = train_tiny(o, extras);
  EXPECT_EQ(found.summary.plan_changes.size(), 3U);
  o.executor = executor_kind::oracle;
  expect_alike(found, train_tiny(o, extras));
}

// -- checkpoints ------------------------------------------------------------------------------

TEST(FrozenCheckpoint, GoesOnUnderTheSameOrAnotherFreeze) {
  for (const auto& [before, behind] :
       std::vector<std::pair<int, int>>{{a_block, a_block}, {0, a_block}, {a_block, 0}, {inside_a_block, 5}}) {
    SCOPED_TRACE(std::to_string(before) + ", then " + std::to_string(behind));
    const testing_support::temporary_folder folder;
    auto o = options_of({"pipedream", {2, 1}, {9}, before});
    o.checkpoint = folder / "checkpoint";
    o.eval_every = -1; // no other drain
    o.steps = 7;
    train_tiny(o);
    o.resume = true;
    o.steps = 12;
    o.frozen_until = behind;
    auto changed = o;
    changed.resume = false;
    changed.checkpoint.clear();
    changed.frozen_until = before;
    const auto resumed = train_tiny(o);
    // What a change of plan at that step leaves.
    tiny_extras extras;
    extras.changes = {{7, request_of({"pipedream", {2, 1}, {9}, behind})}};
    changed.executor = executor_kind::oracle;
    const auto wanted = train_tiny(changed, extras);
    EXPECT_EQ(resumed.summary.weights_sha256, wanted.summary.weights_sha256);
    EXPECT_EQ(resumed.summary.state_sha256, wanted.summary.state_sha256);
    const char* words = behind > before ? "is dropped" : "begins anew";
    EXPECT_THAT(resumed.seen.notes, Contains(HasSubstr(words)).Times(behind == before ? 0 : 1));
  }
}

} // namespace
} // namespace penstock::testing
