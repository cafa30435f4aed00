// Records of many threads reach the file, or are counted as dropped; tracks nest; a disk that refuses is reported.
#include "actors/trace/reader.hpp"
#include "actors/trace/recorder.hpp"
#include "actors/trace/track_event.hpp"
#include "kernels/check.hpp"
#include "tests/trace/synthetic_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <protozero/pbf_reader.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

namespace penstock::actors {
namespace {

namespace te = track_event;
using testing::HasSubstr;

trace_header two_stages() {
  trace_header h;
  h.model = "none";
  h.plan.schedule = "pipedream";
  set_stages(h, {4, 4}, {2, 1});
  return h;
}

trace_record span_of(int stage, int replica, std::int64_t minibatch) {
  trace_record r;
  r.stage = static_cast<std::int16_t>(stage);
  r.replica = static_cast<std::int16_t>(replica);
  r.minibatch = minibatch;
  r.begin_ns = trace_recorder::now_ns();
  r.end_ns = trace_recorder::now_ns();
  return r;
}

struct slice_event {
  std::uint64_t time = 0;
  std::int32_t type = 0;
};

/// Begins and ends of each track, in the order of time, as a trace viewer sorts them.
std::map<std::uint64_t, std::vector<slice_event>> slices_by_track(const std::string& bytes) {
  std::map<std::uint64_t, std::vector<slice_event>> tracks;
  protozero::pbf_reader trace(bytes);
  while (trace.next(te::trace::packet)) {
    protozero::pbf_reader packet = trace.get_message();
    slice_event e;
    std::uint64_t track = 0;
    while (packet.next()) {
      if (packet.tag() == te::packet::timestamp) {
        e.time = packet.get_uint64();
      } else if (packet.tag() == te::packet::event) {
        protozero::pbf_reader event = packet.get_message();
        while (event.next()) {
          if (event.tag() == te::event::type)
            e.type = event.get_enum();
          else if (event.tag() == te::event::track)
            track = event.get_uint64();
          else
            event.skip();
        }
      } else {
        packet.skip();
      }
    }
    if (e.type == te::event::slice_begin || e.type == te::event::slice_end) tracks[track].push_back(e);
  }
  for (auto& [track, events] : tracks)
    std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  return tracks;
}

void expect_no_overlap(const std::string& bytes) {
  for (const auto& [track, events] : slices_by_track(bytes)) {
    auto wanted = te::event::slice_begin;
    for (const auto& e : events) {
      ASSERT_EQ(e.type, wanted) << "track " << track << " at " << e.time;
      wanted = wanted == te::event::slice_begin ? te::event::slice_end : te::event::slice_begin;
    }
  }
}

TEST(Recorder, ManyThreadsLoseNothing) {
  const scratch_file file("threads.pftrace");
  trace_recorder recorder(file.path(), two_stages());
  constexpr int threads = 8;
  constexpr int each = 8000; // half a ring, so none can overflow
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      for (int i = 0; i < each; ++i)
        recorder.record(span_of(t / 4, t % 4, i));
    });
  for (auto& t : team)
    t.join();
  recorder.close(0);
  EXPECT_EQ(recorder.recorded(), threads * each);
  EXPECT_EQ(recorder.dropped(), 0);
  const auto read = read_trace(file.path());
  std::set<std::tuple<int, int, std::int64_t>> seen;
  for (const auto& r : read.records)
    seen.emplace(r.stage, r.replica, r.minibatch);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(threads * each));
  expect_no_overlap(file.bytes());
}

TEST(Recorder, ARingIsUsedAgainWhenItsThreadIsGone) {
  const scratch_file file("turns.pftrace");
  trace_recorder recorder(file.path(), two_stages());
  for (int i = 0; i < 200; ++i)
    std::thread([&] { recorder.record(span_of(0, 0, i)); }).join();
  recorder.close(0);
  EXPECT_EQ(read_trace(file.path()).records.size(), 200U);
}

TEST(Recorder, AThreadMayRecordIntoSeveral) {
  const scratch_file one("one.pftrace");
  const scratch_file two("two.pftrace");
  trace_recorder first(one.path(), two_stages());
  {
    trace_recorder second(two.path(), two_stages());
    for (int i = 0; i < 100; ++i) {
      first.record(span_of(0, 0, i));
      second.record(span_of(1, 0, i));
    }
    second.close(0);
  }
  first.record(span_of(0, 0, 100));
  first.close(0);
  EXPECT_EQ(read_trace(one.path()).records.size(), 101U);
  EXPECT_EQ(read_trace(two.path()).records.size(), 100U);
}

TEST(Recorder, AFloodIsDroppedAndCounted) {
  const scratch_file file("flood.pftrace");
  trace_recorder recorder(file.path(), two_stages());
  constexpr int all = 300'000;
  const auto r = span_of(0, 0, 0);
  for (int i = 0; i < all; ++i)
    recorder.record(r);
  recorder.close(0);
  EXPECT_EQ(recorder.recorded() + recorder.dropped(), all);
  EXPECT_GT(recorder.dropped(), 0);
  const auto read = read_trace(file.path());
  EXPECT_EQ(read.header.dropped, recorder.dropped());
  EXPECT_EQ(static_cast<std::int64_t>(read.records.size()), recorder.recorded());
  EXPECT_THAT(read.missing, HasSubstr("records were dropped while recording"));
}

TEST(Recorder, OverlappingSpansOfAReplicaGetTracksOfTheirOwn) {
  const scratch_file file("overlap.pftrace");
  synthetic_run run;
  run.header = two_stages();
  for (int i = 0; i < 50; ++i) {
    trace_record r = span_of(i % 2, 0, i);
    r.kind = static_cast<span_kind>(i % static_cast<int>(span_kinds));
    r.begin_ns = 1000 * i;
    r.end_ns = 1000 * i + (i % 7) * 900;
    run.records.push_back(r);
  }
  std::reverse(run.records.begin(), run.records.end());
  run.write(file.path());
  expect_no_overlap(file.bytes());
  EXPECT_EQ(read_trace(file.path()).records.size(), 50U);
}

TEST(Recorder, TracksOfAWholeRunDoNotOverlap) {
  const scratch_file file("run.pftrace");
  make_run({.name = "2bw", .replicas = {2, 1, 1}}, {5, 4}).write(file.path());
  expect_no_overlap(file.bytes());
}

TEST(Recorder, ThingsRecordedAreInTheFileBeforeItIsClosed) {
  const scratch_file file("live.pftrace");
  trace_recorder recorder(file.path(), two_stages());
  std::int64_t sent = 0;
  // Half a ring wakes the writer; it writes what is old enough, so this ends soon after.
  while (std::filesystem::file_size(file.path()) < 100'000)
    recorder.record(span_of(0, 0, sent++));
  EXPECT_FALSE(read_trace(file.path()).complete());
  recorder.close(0);
}

TEST(Recorder, TheNewestClockOffsetIsInTheFile) {
  const scratch_file file("offset.pftrace");
  auto header = two_stages();
  header.clock_offset_ns = 5;
  trace_recorder recorder(file.path(), header);
  EXPECT_EQ(read_trace(file.path()).header.clock_offset_ns, 5);
  recorder.set_clock_offset(7);
  recorder.set_clock_offset(-9'000'000'000);
  std::int64_t sent = 0;
  // A file that is not closed yet has it too, once the writer thread has been at work.
  while (read_trace(file.path()).header.clock_offset_ns == 5)
    recorder.record(span_of(0, 0, sent++));
  EXPECT_EQ(read_trace(file.path()).header.clock_offset_ns, -9'000'000'000);
  recorder.set_clock_offset(11);
  recorder.close(0);
  EXPECT_EQ(read_trace(file.path()).header.clock_offset_ns, 11);
}

TEST(Recorder, NothingIsLostWhenAnotherPlanTakesOver) {
  const scratch_file file("plans.pftrace");
  trace_recorder recorder(file.path(), two_stages());
  constexpr std::int32_t plans = 12;
  constexpr int each = 3000; // the writer is woken within some of them
  for (std::int32_t plan = 0; plan < plans; ++plan) {
    const int last_stage = plan + 1; // which no plan before has
    if (plan > 0) {
      trace_header next;
      set_stages(next, std::vector<int>(static_cast<std::size_t>(last_stage) + 1, 4));
      std::thread([&] {
        recorder.change_plan({.first_stretch = plan, .first_minibatch = plan, .plan = next.plan});
      }).join();
    }
    std::vector<std::thread> team;
    for (int t = 0; t < 4; ++t)
      team.emplace_back([&, t] {
        for (int i = 0; i < each; ++i) {
          auto r = span_of(last_stage, t, plan);
          r.stretch = plan;
          recorder.record(r);
        }
      });
    for (auto& t : team)
      t.join();
  }
  recorder.close(plans);
  const auto read = read_trace(file.path());
  EXPECT_EQ(read.missing, "");
  EXPECT_EQ(read.header.changes.size(), static_cast<std::size_t>(plans - 1));
  EXPECT_EQ(read.records.size(), static_cast<std::size_t>(plans) * 4 * each);
  expect_no_overlap(file.bytes());
}

TEST(Recorder, AFileThatCannotBeWrittenIsNamed) {
  try {
    trace_recorder recorder("/nowhere/at/all.pftrace", two_stages());
    FAIL();
  } catch (const error& refused) {
    EXPECT_STREQ(refused.what(), "cannot write trace file '/nowhere/at/all.pftrace': No such file or directory");
  }
}

TEST(Recorder, AFullDiskIsReportedWhenItCloses) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  trace_recorder recorder("/dev/full", two_stages());
  recorder.record(span_of(0, 0, 0));
  try {
    recorder.close(1);
    FAIL();
  } catch (const error& refused) {
    EXPECT_STREQ(refused.what(), "cannot write trace file '/dev/full': No space left on device");
  }
  recorder.close(1); // nothing more to say
}

} // namespace
} // namespace penstock::actors
