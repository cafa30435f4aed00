// Files of many ranks become one trace in which nothing is received before it was sent.
#include "actors/trace/merge.hpp"
#include "actors/trace/messages.hpp"
#include "actors/trace/recorder.hpp"
#include "kernels/check.hpp"
#include "tests/trace/split_run.hpp"
#include "tools/trace/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace penstock::actors {
namespace {

using testing::HasSubstr;

constexpr std::int64_t microsecond = 1'000;
constexpr std::int64_t millisecond = 1'000'000;
constexpr std::int64_t hour = 3'600'000'000'000;
constexpr std::int64_t begin_ns = 100 * hour;

std::string refusal(const std::vector<std::filesystem::path>& files, const std::filesystem::path& out) {
  try {
    merge_traces(files, out);
  } catch (const error& refused) {
    EXPECT_EQ(std::string(refused.what()).find('\n'), std::string::npos);
    return refused.what();
  }
  return "";
}

/// Messages that arrive before they were sent, and those that lack an end.
std::pair<int, int> wrong_messages(const trace_file& file) {
  std::pair<int, int> wrong;
  for (const auto& m : pair_messages(file.records)) {
    if (m.send == nullptr || m.receive == nullptr)
      ++wrong.second;
    else if (m.transfer_ns() < 0)
      ++wrong.first;
  }
  return wrong;
}

/// Without what merging may change: when, and whose.
std::vector<trace_record> contents_of(std::vector<trace_record> records) {
  for (auto& r : records) {
    r.end_ns -= r.begin_ns;
    r.begin_ns = 0;
    r.rank = -1;
  }
  const auto key = [](const trace_record& r) {
    return std::tuple(r.kind, r.stage, r.replica, r.minibatch, r.microbatch, r.peer, r.end_ns, r.reason, r.bytes,
                      r.mailbox_depth, r.version_read);
  };
  std::sort(records.begin(), records.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return records;
}

struct merged {
  merged_trace report;
  trace_file file;
};

merged merge(const std::vector<std::filesystem::path>& files) {
  const scratch_file out("merged.pftrace");
  merged m;
  m.report = merge_traces(files, out.path());
  m.file = read_trace(out.path());
  return m;
}

TEST(Merge, RightClocksGiveTheRunAsItWas) {
  const auto whole = simulate_ranks({.name = "pipedream", .replicas = {2, 1}, .minibatches = 12}, begin_ns, 0.2);
  split_run run(whole, {{0, 1}, {2}}, {{"a", -5 * hour, 0}, {"b", 3 * hour, 0}, {"c", 40 * millisecond, 0}});
  run.write();
  const auto m = merge(run.paths());
  EXPECT_TRUE(m.file.complete()) << m.file.missing;
  EXPECT_EQ(m.report.most_corrected_ns, 0);
  EXPECT_EQ(m.report.header.clock_conflict_ns, 0);
  ASSERT_EQ(m.file.records.size(), whole.records.size());
  for (auto r : m.file.records) {
    EXPECT_EQ(r.rank, rank_of(m.file.header, r.stage, r.replica));
    r.begin_ns += 5 * hour; // rank 0's clock is behind the true one
    r.end_ns += 5 * hour;
    r.rank = -1;
    EXPECT_EQ(std::count(whole.records.begin(), whole.records.end(), r), 1);
  }
  const auto verdict = check_history(m.file);
  EXPECT_EQ(verdict.found, history_verdict::outcome::holds) << verdict.line;
}

TEST(Merge, WhateverTheClocksShowNothingIsReceivedBeforeItWasSent) {
  std::mt19937_64 random(21);
  const auto within = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * most + 1)) - most;
  };
  const std::vector<planner::schedule_request> requests{
      {.name = "pipedream", .replicas = {2, 1, 1}, .minibatches = 9},
      {.name = "1f1b", .replicas = {2, 2}, .microbatches = 4, .minibatches = 5},
      {.name = "data-parallel", .replicas = {4}, .minibatches = 6},
      {.name = "2bw", .replicas = {1, 3}, .microbatches = 4, .minibatches = 5}};
  for (int round = 0; round < 24; ++round) {
    const auto& request = requests[static_cast<std::size_t>(round) % requests.size()];
    const auto whole = simulate_ranks(request, begin_ns, 0.5, random());
    // Four ranks on two to four hosts, each with its clock; measured wrong by up to 20 ms, longer than a message takes.
    const int hosts = 2 + static_cast<int>(random() % 3);
    std::vector<std::int64_t> clocks;
    for (int h = 0; h < hosts; ++h)
      clocks.push_back(within(random() % 2 == 0 ? 20 * hour : 50 * millisecond));
    std::vector<rank_place> places;
    for (int rank = 0; rank < 4; ++rank) {
      const auto host = static_cast<std::size_t>(rank % hosts);
      places.push_back(
          {std::string("host").append(std::to_string(host)), clocks[host], rank == 0 ? 0 : within(20 * millisecond)});
    }
    std::vector<std::vector<int>> ranks;
    int next = 0;
    for (const int count : request.replicas)
      for (auto& of_stage = ranks.emplace_back(); static_cast<int>(of_stage.size()) < count;)
        of_stage.push_back(next++);
    split_run run(whole, ranks, places);
    run.write();
    const auto m = merge(run.paths());
    SCOPED_TRACE(round);
    EXPECT_TRUE(m.file.complete()) << m.file.missing;
    EXPECT_EQ(m.file.header.clock_conflict_ns, 0);
    EXPECT_EQ(wrong_messages(m.file), (std::pair{0, 0}));
    EXPECT_EQ(contents_of(m.file.records), contents_of(whole.records));
    const auto verdict = check_history(m.file);
    EXPECT_EQ(verdict.found, history_verdict::outcome::holds) << verdict.line;
    // Ranks of one host keep their distance, and none is moved by more than it was measured wrong.
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const auto moved = m.report.shifts_ns[rank] - (places[0].clock_ns - places[rank].clock_ns);
      EXPECT_LE(std::abs(moved), 40 * millisecond);
      EXPECT_EQ(m.report.shifts_ns[rank], m.report.shifts_ns[rank % static_cast<std::size_t>(hosts)]);
    }
  }
}

/// Three ranks on two hosts, whose clocks are measured right.
split_run three_ranks() {
  return {simulate_ranks({.name = "pipedream", .replicas = {2, 1}, .minibatches = 8}, begin_ns),
          {{0, 1}, {2}},
          {{"a", hour, 0}, {"a", hour, 0}, {"b", -hour, 0}}};
}

TEST(Merge, AWronglyMeasuredLinkTakesAsLongBothWays) {
  // Two hosts whose offset was measured 3 ms off: no more than the messages themselves tell is known.
  const auto whole = simulate_ranks({.name = "pipedream", .replicas = {1, 1}, .minibatches = 20}, begin_ns);
  const split_run run(whole, {{0}, {1}}, {{"a", 0, 0}, {"b", hour, 3 * millisecond}});
  run.write();
  const auto m = merge(run.paths());
  EXPECT_EQ(m.report.most_corrected_ns, 3 * millisecond);
  for (const auto& message : pair_messages(m.file.records))
    EXPECT_EQ(message.transfer_ns(), 500 * microsecond);
}

TEST(Merge, RanksOfOneHostKeepTheirDistanceHoweverTheyWereMeasured) {
  auto run = three_ranks();
  run.parts[1].header.clock_offset_ns = 7 * microsecond; // rank 0's own clock, so surely 0
  run.write();
  EXPECT_EQ(merge(run.paths()).report.shifts_ns, (std::vector<std::int64_t>{0, 0, 2 * hour}));
}

TEST(Merge, TwoMachinesOfOneNameAreTwoClocks) {
  auto run = three_ranks();
  for (auto& part : run.parts)
    part.header.hosts = {"localhost", "localhost", "localhost"};
  run.write();
  const auto m = merge(run.paths());
  EXPECT_EQ(m.report.shifts_ns, (std::vector<std::int64_t>{0, 0, 2 * hour}));
  EXPECT_EQ(wrong_messages(m.file), (std::pair{0, 0}));
}

TEST(Merge, RanksWithoutHostsHaveEachTheirClock) {
  auto run = three_ranks();
  for (auto& part : run.parts)
    part.header.hosts.clear();
  run.parts[1].header.clock_offset_ns = 3 * microsecond;
  run.write();
  EXPECT_EQ(merge(run.paths()).report.shifts_ns, (std::vector<std::int64_t>{0, 3 * microsecond, 2 * hour}));
}

TEST(Merge, NoTimeIsBelowZero) {
  // Rank 0 begins at its clock's zero; rank 1 begins with it, measured as if it were a little before.
  const auto whole = simulate_ranks({.name = "pipedream", .replicas = {2, 1}, .minibatches = 8}, begin_ns);
  const split_run run(whole, {{0, 1}, {2}}, {{"a", -begin_ns, 0}, {"b", 0, -400 * microsecond}, {"a", -begin_ns, 0}});
  run.write();
  const auto m = merge(run.paths());
  EXPECT_EQ(m.file.records.front().begin_ns, 0);
  EXPECT_EQ(m.report.shifts_ns, (std::vector<std::int64_t>{400 * microsecond, -begin_ns, 400 * microsecond}));
}

TEST(Merge, ARankWithoutAFileLeavesTheTraceIncomplete) {
  const auto run = three_ranks();
  run.write();
  const auto m = merge(run.paths({1}));
  EXPECT_EQ(m.file.missing, "no trace of rank 1");
  EXPECT_FALSE(m.file.header.complete);
  EXPECT_EQ(m.report.shifts_ns, (std::vector<std::int64_t>{0, 0, 2 * hour}));
  EXPECT_EQ(check_history(m.file).line, "the trace is incomplete: no trace of rank 1");
  EXPECT_EQ(m.file.records.size(), run.parts[0].records.size() + run.parts[2].records.size());
  EXPECT_EQ(merge(run.paths({0})).file.missing, "no trace of rank 0");
}

TEST(Merge, ABrokenFileLeavesTheTraceIncomplete) {
  const auto run = three_ranks();
  run.write();
  const scratch_file cut("cut.pftrace");
  const scratch_file whole("whole.pftrace");
  std::filesystem::copy_file(run.path(1), whole.path());
  const auto bytes = whole.bytes();
  std::filesystem::remove(run.path(1));
  cut.replace(bytes.substr(0, bytes.size() / 2));
  auto m = merge({run.path(0), cut.path(), run.path(2)});
  EXPECT_THAT(m.file.missing, HasSubstr("rank 1: the file breaks off at byte"));
  EXPECT_GT(m.file.records.size(), run.parts[0].records.size() + run.parts[2].records.size());

  cut.replace("not a trace");
  m = merge({run.path(0), cut.path(), run.path(2)});
  EXPECT_THAT(m.file.missing, HasSubstr("no trace of rank 1; trace '"));
  EXPECT_THAT(m.file.missing, HasSubstr("not a packet of a Perfetto trace"));
  m = merge(run.paths()); // rank 1's is not there at all
  EXPECT_THAT(m.file.missing, HasSubstr("no trace of rank 1; cannot read trace '"));
}

TEST(Merge, ARankThatWasKilledIsNamed) {
  const auto run = three_ranks();
  run.write();
  const scratch_file killed("killed.pftrace");
  {
    trace_recorder recorder(killed.path(), run.parts[2].header);
    for (const auto& r : run.parts[2].records)
      recorder.record(r);
  }
  const auto m = merge({run.path(0), run.path(1), killed.path()});
  EXPECT_EQ(m.file.missing, "rank 2: the run did not close it");
  EXPECT_EQ(wrong_messages(m.file), (std::pair{0, 0}));
}

TEST(Merge, RanksThatEndedApartLeaveTheTraceIncomplete) {
  auto run = three_ranks();
  run.parts[2].header.minibatches = 5;
  run.write();
  const auto m = merge(run.paths());
  EXPECT_EQ(m.file.missing, "rank 2 ended at minibatch 5, another at 8");
  EXPECT_EQ(m.file.header.minibatches, 8);
}

TEST(Merge, MessagesThatContradictEachOtherAreTold) {
  auto run = three_ranks();
  // Rank 2 says that it sent every gradient 10 ms later than it did, so after its arrival.
  for (auto& r : run.parts[2].records)
    if (r.kind == span_kind::send) {
      r.begin_ns += 10 * millisecond;
      r.end_ns += 10 * millisecond;
    }
  run.write();
  const auto m = merge(run.paths());
  EXPECT_TRUE(m.file.complete());
  EXPECT_GT(m.report.header.clock_conflict_ns, 4 * millisecond);
  EXPECT_LT(m.report.header.clock_conflict_ns, 5 * millisecond);
  EXPECT_EQ(m.file.header.clock_conflict_ns, m.report.header.clock_conflict_ns);
  for (const auto& message : pair_messages(m.file.records))
    EXPECT_GE(message.transfer_ns(), -m.report.header.clock_conflict_ns);
  const auto verdict = check_history(m.file);
  EXPECT_EQ(verdict.found, history_verdict::outcome::violated);
  EXPECT_THAT(verdict.line, HasSubstr("before it was sent; the ranks' clocks disagree by up to 4"));
}

TEST(Merge, FilesThatDoNotBelongTogetherAreRefused) {
  const auto run = three_ranks();
  run.write();
  const scratch_file out("out.pftrace");
  EXPECT_EQ(refusal({}, out.path()), "no trace to merge");
  EXPECT_THAT(refusal({run.path(0), run.path(0)}, out.path()), HasSubstr("are both of rank 0"));
  EXPECT_THAT(refusal({run.path(0), run.path(1)}, run.path(1)), HasSubstr("would replace a rank's own"));
  EXPECT_THAT(refusal({out.path()}, out.path()), HasSubstr("cannot read trace"));
  EXPECT_THAT(refusal({run.path(0), run.path(1), run.path(2), out.path()}, out.path()), HasSubstr("cannot read trace"));
  auto other = three_ranks();
  other.parts[1].header.run = "another job";
  other.write();
  EXPECT_THAT(refusal({run.path(0), other.path(1)}, out.path()), HasSubstr("is not of the same run as '"));
  const scratch_file alone("alone.pftrace");
  make_run({.name = "pipedream", .replicas = {1, 1}}, {3}).write(alone.path());
  EXPECT_THAT(refusal({run.path(0), alone.path()}, out.path()), HasSubstr("is of a run in one process"));
  const scratch_file merged("merged.pftrace");
  merge_traces(run.paths(), merged.path());
  EXPECT_THAT(refusal({run.path(0), merged.path()}, out.path()), HasSubstr("is a merged one"));
  EXPECT_FALSE(std::filesystem::exists(out.path()));
}

TEST(Merge, ClocksThatWereNeverMeasuredAreRefused) {
  auto run = three_ranks();
  for (auto& r : run.parts[2].records) {
    r.begin_ns += 24 * 365 * hour;
    r.end_ns += 24 * 365 * hour;
  }
  run.write();
  const scratch_file out("out.pftrace");
  EXPECT_EQ(refusal(run.paths(), out.path()), "the ranks' clocks are days apart: their offsets were not measured");
}

TEST(Merge, AnOutputThatCannotBeWrittenIsNamed) {
  const auto run = three_ranks();
  run.write();
  EXPECT_THAT(refusal(run.paths(), "/nowhere/at/all.pftrace"), HasSubstr("/nowhere/at/all.pftrace"));
}

} // namespace
} // namespace penstock::actors
