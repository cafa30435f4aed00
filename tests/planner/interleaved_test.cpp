// The interleaved order: Megatron's, its closed forms, and what may not be asked of it.
#include "planner/check_schedule.hpp"
#include "planner/interleaved.hpp"
#include "planner/machine.hpp"
#include "planner/simulate.hpp"
#include "tests/planner/list_text.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

schedule_request interleaved(int positions, int chunks, int microbatches, std::int64_t minibatches = 1,
                             int replicas = 1) {
  auto r = request("interleaved", std::vector<int>(static_cast<std::size_t>(positions), replicas), microbatches,
                   minibatches);
  r.chunks = chunks;
  return r;
}

/// "F0.1" is a forward of stage 0, micro-batch 1.
std::string text_of_worker(const schedule& s, const worker& w) {
  std::string text;
  for (const auto& a : write_out(sequence(s, w))) {
    text += text.empty() ? "" : " ";
    text += a.kind == action_kind::update ? "U" : a.kind == action_kind::forward ? "F" : "B";
    text += std::to_string(a.stage);
    if (a.kind != action_kind::update) text += "." + std::to_string(a.microbatch);
  }
  return text;
}

/// Chunks that take so much each.
simulation played(const schedule_request& r, double forward, double backward) {
  const auto s = resolve_schedule(r);
  return simulate(s, std::vector<stage_times>(s.stages.size(), {forward, backward}));
}

TEST(Interleaved, HasMegatronsOrder) {
  const auto s = resolve_schedule(interleaved(2, 2, 4));
  EXPECT_EQ(text_of_worker(s, {0, 0}), "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 U2 B0.2 "
                                       "B0.3 U0");
  EXPECT_EQ(text_of_worker(s, {1, 0}), "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 U3 B1.2 "
                                       "B1.3 U1");
}

TEST(Interleaved, LeavesOutMicrobatchesThatAreNotThere) {
  const auto s = resolve_schedule(interleaved(2, 2, 3));
  EXPECT_EQ(text_of_worker(s, {1, 0}), "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 B1.1 F3.2 B3.2 U3 B1.2 U1");
}

TEST(Interleaved, WarmsUpByItsPosition) {
  for (int n = 1; n <= 5; ++n)
    for (int v = 1; v <= 4; ++v) {
      const auto s = resolve_schedule(interleaved(n, v, 4 * n));
      for (int i = 0; i < n; ++i) {
        int forwards = 0;
        for (const auto& a : write_out(sequence(s, worker{i, 0}))) {
          if (a.kind != action_kind::forward) break;
          ++forwards;
        }
        EXPECT_EQ(forwards, 2 * (n - 1 - i) + (v - 1) * n + 1) << "the first of the steady state with it";
      }
    }
}

TEST(Interleaved, BubbleTimeIsThatOfOneChunkASlot) {
  for (int n = 2; n <= 6; ++n)
    for (int v = 1; v <= 4; ++v)
      for (int rounds = 1; rounds <= 3; ++rounds) {
        const auto run = played(interleaved(n, v, rounds * n), 1, 2);
        EXPECT_EQ(run.makespan, (rounds * n * v + n - 1) * 3) << "n " << n << " v " << v;
        EXPECT_NEAR(run.bubble(), (n - 1.0) / (rounds * n * v + n - 1), 1e-12) << "busy times of a worker's chunks";
      }
}

TEST(Interleaved, IsNeverSlowerThanOneForwardOneBackward) {
  for (int n = 1; n <= 6; ++n)
    for (int v = 1; v <= 4; ++v)
      for (int m = 1; m <= 20; ++m)
        for (const auto& [forward, backward] : {std::pair(1.0, 1.0), {1.0, 2.0}, {1.0, 3.0}, {2.0, 1.0}}) {
          auto whole = resolve_schedule(request("1f1b", std::vector<int>(static_cast<std::size_t>(n), 1), m, 1));
          const auto plain =
              simulate(whole, std::vector<stage_times>(static_cast<std::size_t>(n), {v * forward, v * backward}));
          ASSERT_LE(played(interleaved(n, v, m), forward, backward).makespan, plain.makespan)
              << "n " << n << " v " << v << " M " << m;
        }
}

TEST(Interleaved, HoldsAsMuchAsItsCreditsSay) {
  for (const int replicas : {1, 2, 3})
    for (int n = 1; n <= 4; ++n)
      for (int v = 1; v <= 3; ++v)
        for (int m = 1; m <= 13; ++m) {
          const auto s = resolve_schedule(interleaved(n, v, m, 7, replicas));
          SCOPED_TRACE(std::to_string(replicas) + " replicas, n " + std::to_string(n) + " v " + std::to_string(v) +
                       " M " + std::to_string(m));
          ASSERT_EQ(check_schedule(s).value_or(""), "");
          const auto run = simulate(s, std::vector<stage_times>(s.stages.size(), {1, 2}));
          for (std::size_t stage = 0; stage < s.stages.size(); ++stage)
            ASSERT_EQ(run.peak_in_flight[stage], s.stages[stage].credit) << "stage " << stage;
        }
}

TEST(Interleaved, PeakActivationsAreThePublishedOnes) {
  // (2 (n - i) + (v - 1) n + 1) / v of a whole model's 1/n, on the first worker: 11.5 and 9.75 for n = 8.
  for (const auto& [v, most] : {std::pair(2, 23), {4, 39}}) {
    const auto s = resolve_schedule(interleaved(8, v, 32));
    std::int64_t held = 0, peak = 0;
    for (const auto& a : write_out(sequence(s, worker{0, 0}))) {
      held += a.kind == action_kind::forward ? 1 : a.kind == action_kind::backward ? -1 : 0;
      peak = std::max(peak, held);
    }
    EXPECT_EQ(peak, most);
  }
}

TEST(Interleaved, IsProvedByItsPeriod) {
  for (const int m : {1, 4, 5, 7}) {
    const auto s = resolve_schedule(interleaved(3, 2, m, 3'000'000, 2));
    const auto fewer = equivalent_minibatches(s, sequences_of(s));
    ASSERT_TRUE(fewer.has_value());
    EXPECT_LT(*fewer, 20);
    EXPECT_EQ(check_schedule(s).value_or(""), "");
  }
}

TEST(Interleaved, RefusesWhatItCannotHave) {
  const auto refusal = [](const schedule_request& r) { return refusal_of([&] { resolve_schedule(r); }); };
  auto uneven = interleaved(2, 2, 4);
  uneven.replicas = {2, 1};
  EXPECT_EQ(refusal(uneven),
            "interleaved needs equal replica counts: worker position 0 has 2, worker position 1 has 1");
  EXPECT_EQ(refusal(interleaved(2, 0, 4)), "chunks is 0, wanted at least 1");
  auto other = request("1f1b", {1, 1}, 4, 1);
  other.chunks = 2;
  EXPECT_EQ(refusal(other),
            "chunks is 2, and 1f1b has one stage a worker; several chunks a worker are for interleaved");
  auto tight = interleaved(2, 2, 4);
  tight.in_flight = parse_in_flight("tight");
  EXPECT_EQ(refusal(tight), "in-flight of interleaved follows from its warm-up: leave it out");
  tight.in_flight = parse_in_flight("1,1,1,1");
  EXPECT_EQ(refusal(tight),
            "interleaved holds what its warm-up gives: in-flight of stage 0 is 1, wanted at least 4 for "
            "4 micro-batches");
  EXPECT_NE(refusal(interleaved(2, 3000, 4)), "");
}

TEST(Interleaved, StagesOfOneWorkerShareItsDevices) {
  const auto s = resolve_schedule(interleaved(2, 2, 4));
  machine m;
  m.stages.assign(4, {});
  for (int i = 0; i < 4; ++i)
    m.stages[static_cast<std::size_t>(i)].devices = {i};
  EXPECT_EQ(refusal_of([&] { run_machine(s, m); }), "stage 2 has other devices than stage 0, whose workers host it");
  m.stages[2].devices = {0};
  m.stages[3].devices = {1};
  for (auto& stage : m.stages) {
    stage.kept_bytes = {10};
    stage.weight_bytes = 100;
  }
  const auto run = run_machine(s, m);
  EXPECT_EQ(run.makespan, (4 * 2 + 1) * 3);
  for (std::size_t stage = 0; stage < 4; ++stage)
    EXPECT_EQ(run.memory[stage].activations, 10.0 * static_cast<double>(s.stages[stage].credit)) << "each by itself";
}

} // namespace
} // namespace penstock::planner::testing
