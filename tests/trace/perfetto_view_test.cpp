// What the Perfetto UI is given of a run with ranks: processes, tracks and arrows.
#include "actors/trace/merge.hpp"
#include "actors/trace/track_event.hpp"
#include "tests/trace/split_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <protozero/pbf_reader.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace penstock::actors {
namespace {

namespace te = track_event;
using protozero::pbf_reader;

struct track {
  std::string name; // of a track, or of its process
  std::uint64_t parent = 0;
};

struct flow_end {
  std::uint64_t id = 0;
  std::uint64_t time = 0;
  std::uint64_t on = 0; // the track
};

struct view {
  std::map<std::uint64_t, track> tracks;
  std::vector<flow_end> begins, ends; // of flows, in the order of the file
  std::vector<std::string> order;     // "begin 7", "end 7"
  const track& process_of(std::uint64_t uuid) const {
    const track* at = &tracks.at(uuid);
    while (at->parent != 0)
      at = &tracks.at(at->parent);
    return *at;
  }
};

std::string process_name(pbf_reader process) {
  std::string name;
  while (process.next())
    if (process.tag() == te::process::name)
      name = process.get_string();
    else
      process.skip();
  return name;
}

void read_descriptor(pbf_reader d, view& v) {
  std::uint64_t uuid = 0;
  track t;
  while (d.next()) {
    if (d.tag() == te::descriptor::uuid)
      uuid = d.get_uint64();
    else if (d.tag() == te::descriptor::name)
      t.name = d.get_string();
    else if (d.tag() == te::descriptor::process)
      t.name = process_name(d.get_message());
    else if (d.tag() == te::descriptor::parent)
      t.parent = d.get_uint64();
    else
      d.skip();
  }
  v.tracks[uuid] = t;
}

void read_event(pbf_reader e, std::uint64_t time, view& v) {
  std::uint64_t on = 0;
  std::uint64_t begins = 0;
  std::uint64_t ends = 0;
  while (e.next()) {
    if (e.tag() == te::event::track)
      on = e.get_uint64();
    else if (e.tag() == te::event::flow_ids)
      begins = e.get_fixed64();
    else if (e.tag() == te::event::terminating_flow_ids)
      ends = e.get_fixed64();
    else
      e.skip();
  }
  if (begins != 0) v.begins.push_back({begins, time, on});
  if (ends != 0) v.ends.push_back({ends, time, on});
  if (begins != 0) v.order.push_back("begin " + std::to_string(begins));
  if (ends != 0) v.order.push_back("end " + std::to_string(ends));
}

view view_of(const std::string& bytes) {
  view v;
  pbf_reader trace(bytes);
  while (trace.next(te::trace::packet)) {
    pbf_reader packet = trace.get_message();
    std::uint64_t time = 0;
    while (packet.next()) {
      if (packet.tag() == te::packet::timestamp)
        time = packet.get_uint64();
      else if (packet.tag() == te::packet::descriptor)
        read_descriptor(packet.get_message(), v);
      else if (packet.tag() == te::packet::event)
        read_event(packet.get_message(), time, v);
      else
        packet.skip();
    }
  }
  return v;
}

std::set<std::uint64_t> ids_of(const std::vector<flow_end>& flows) {
  std::set<std::uint64_t> ids;
  for (const auto& f : flows)
    ids.insert(f.id);
  return ids;
}

std::string bytes_at(const std::filesystem::path& path, const scratch_file& copy) {
  std::filesystem::copy_file(path, copy.path(), std::filesystem::copy_options::overwrite_existing);
  return copy.bytes();
}

class PerfettoView : public testing::Test {
protected:
  PerfettoView()
      : whole_(
            simulate_ranks({.name = "1f1b", .replicas = {2, 1}, .microbatches = 4, .minibatches = 6}, 5'000'000'000)),
        run_(whole_, {{0, 1}, {2}}, {{"a", 0, 0}, {"a", 0, 0}, {"b", 3'000'000'000, 0}}) {
    run_.write();
  }

  trace_file whole_;
  split_run run_;
};

TEST_F(PerfettoView, AMergedTraceHasAProcessForEachRankAndATrackForEachReplica) {
  const scratch_file out("merged.pftrace");
  merge_traces(run_.paths(), out.path());
  const auto v = view_of(out.bytes());
  std::map<std::string, std::set<std::string>> under;
  for (const auto& [uuid, t] : v.tracks)
    if (t.parent == 0)
      under[t.name];
    else if (v.tracks.at(t.parent).parent == 0)
      under[v.tracks.at(t.parent).name].insert(t.name);
  EXPECT_EQ(under, (std::map<std::string, std::set<std::string>>{{"penstock rank 0 on a", {"stage 0 replica 0"}},
                                                                 {"penstock rank 1 on a", {"stage 0 replica 1"}},
                                                                 {"penstock rank 2 on b", {"stage 1 replica 0"}}}));
}

TEST_F(PerfettoView, EveryArrowOfAMergedTraceHasBothEndsAndGoesForwardInTime) {
  const scratch_file out("merged.pftrace");
  merge_traces(run_.paths(), out.path());
  const auto v = view_of(out.bytes());
  ASSERT_EQ(v.begins.size(), 2U * 4 * 6); // an activation and a gradient of each micro-batch
  EXPECT_EQ(ids_of(v.begins).size(), v.begins.size());
  EXPECT_EQ(v.ends.size(), v.begins.size());
  EXPECT_EQ(ids_of(v.ends), ids_of(v.begins));
  std::map<std::uint64_t, std::uint64_t> sent;
  for (const auto& f : v.begins)
    sent[f.id] = f.time;
  int across = 0;
  for (const auto& f : v.ends) {
    EXPECT_GE(f.time, sent.at(f.id));
    for (const auto& b : v.begins)
      if (b.id == f.id && v.process_of(b.on).name != v.process_of(f.on).name) ++across;
  }
  EXPECT_EQ(across, 2 * 4 * 6);
  std::set<std::string> seen; // an arrow's begin is told first
  for (const auto& word : v.order) {
    if (word.starts_with("end ")) {
      EXPECT_TRUE(seen.contains("begin " + word.substr(4)));
    }
    seen.insert(word);
  }
}

TEST_F(PerfettoView, ARanksOwnFileHasItsTracksAndHalvesOfTheSameArrows) {
  const scratch_file copy("copy.pftrace");
  std::set<std::uint64_t> begins;
  std::set<std::uint64_t> ends;
  for (int rank = 0; rank < 3; ++rank) {
    const auto v = view_of(bytes_at(run_.path(rank), copy));
    begins.merge(ids_of(v.begins));
    ends.merge(ids_of(v.ends));
    std::set<std::string> replicas;
    for (const auto& [uuid, t] : v.tracks)
      if (t.name.starts_with("stage")) replicas.insert(t.name);
    EXPECT_EQ(replicas, (std::set<std::string>{rank < 2 ? "stage 0 replica " + std::to_string(rank)
                                                        : std::string("stage 1 replica 0")}));
  }
  EXPECT_EQ(begins.size(), 2U * 4 * 6);
  EXPECT_EQ(begins, ends);
}

TEST_F(PerfettoView, MessagesOfTheSourceHaveNoArrow) {
  synthetic_run run = make_run({.name = "pipedream", .replicas = {1}}, {3});
  trace_record r;
  r.kind = span_kind::receive;
  r.stage = 0;
  r.minibatch = 0;
  r.microbatch = 0;
  run.records.push_back(r);
  const scratch_file out("source.pftrace");
  run.write(out.path());
  EXPECT_TRUE(view_of(out.bytes()).ends.empty());
}

} // namespace
} // namespace penstock::actors
