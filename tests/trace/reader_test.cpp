// What was written is read back; what is broken is refused in one line or called incomplete.
#include "actors/trace/header_json.hpp"
#include "actors/trace/reader.hpp"
#include "actors/trace/recorder.hpp"
#include "kernels/check.hpp"
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <sstream>
#include <tuple>

namespace penstock::actors {
namespace {

using testing::HasSubstr;

auto key(const trace_record& r) {
  return std::tuple(r.begin_ns, r.end_ns, r.stage, r.replica, r.kind, r.minibatch, r.microbatch, r.peer, r.reason);
}

std::vector<trace_record> sorted(std::vector<trace_record> records) {
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return key(a) < key(b); });
  return records;
}

synthetic_run small_run() {
  return make_run({.name = "pipedream", .replicas = {2, 1}}, {4, 3});
}

trace_file read(const std::string& bytes) {
  std::istringstream in(bytes);
  return read_trace(in, bytes.size(), "trace 'bytes'");
}

/// The error's message, "incomplete" or "complete".
std::string outcome_of(const std::string& bytes) {
  try {
    const auto file = read(bytes);
    check_history(file.header, file.records); // whatever is read can be judged
    return file.complete() ? "complete" : "incomplete";
  } catch (const error& refused) {
    EXPECT_EQ(std::string(refused.what()).find('\n'), std::string::npos);
    EXPECT_THAT(refused.what(), HasSubstr("trace 'bytes'"));
    return refused.what();
  }
}

std::string bytes_of(const synthetic_run& run) {
  const scratch_file file("bytes.pftrace");
  run.write(file.path());
  return file.bytes();
}

TEST(Reader, ReadsBackWhatWasRecorded) {
  const auto run = small_run();
  const scratch_file file("round.pftrace");
  run.write(file.path());
  const auto read = read_trace(file.path());
  EXPECT_TRUE(read.complete());
  EXPECT_EQ(to_json(read.header), to_json(run.header));
  EXPECT_EQ(sorted(read.records), sorted(run.records));
  EXPECT_EQ(check_history(read).found, history_verdict::outcome::holds);
}

TEST(Reader, KeepsEveryFieldAtItsLimits) {
  synthetic_run run;
  run.header.model = "a \"model\"\n of any name \xff";
  run.header.plan.schedule = "pipedream";
  set_stages(run.header, {1, 300}, {3, 1});
  set_layers(run.header, {"conv1 .. fc1", "fc2"});
  run.header.minibatches = 7;
  for (std::size_t k = 0; k < span_kinds; ++k)
    for (std::size_t reason = 0; reason < wait_reasons; ++reason) {
      trace_record r;
      r.kind = static_cast<span_kind>(k);
      r.reason = static_cast<wait_reason>(reason);
      r.begin_ns = static_cast<std::int64_t>(100 * k + reason);
      r.end_ns = r.begin_ns + 1'000'000'000'000;
      run.records.push_back(r); // nothing applies: the source
      r.stage = -2;
      run.records.push_back(r);
      r.stage = 1;
      r.replica = 299;
      r.peer = -2;
      r.minibatch = r.version_read = r.version_written = r.bytes = std::int64_t{1} << 53;
      r.microbatch = r.stretch = std::numeric_limits<std::int32_t>::max();
      r.mailbox_depth = std::numeric_limits<std::int16_t>::max();
      run.records.push_back(r);
    }
  const scratch_file file("fields.pftrace");
  run.write(file.path());
  EXPECT_EQ(sorted(read_trace(file.path()).records), sorted(run.records));
}

TEST(Reader, AFileThatWasNotClosedIsReadAndCalledIncomplete) {
  const auto run = small_run();
  const scratch_file file("unclosed.pftrace");
  {
    trace_recorder recorder(file.path(), run.header);
    for (const auto& r : run.records)
      recorder.record(r);
  }
  const auto read = read_trace(file.path());
  EXPECT_EQ(read.missing, "the run did not close it");
  EXPECT_EQ(read.records.size(), run.records.size());
  EXPECT_EQ(check_history(read).line, "the trace is incomplete: the run did not close it");
}

TEST(Reader, AFileThatBreaksOffIsReadAsFarAsItGoes) {
  const auto bytes = bytes_of(make_run({.name = "pipedream", .replicas = {1, 1}}, {3}));
  const auto all = sorted(read(bytes).records);
  std::size_t most = 0;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto outcome = outcome_of(bytes.substr(0, length));
    if (outcome == "incomplete") {
      const auto part = sorted(read(bytes.substr(0, length)).records);
      EXPECT_TRUE(std::includes(all.begin(), all.end(), part.begin(), part.end(),
                                [](const auto& a, const auto& b) { return key(a) < key(b); }));
      EXPECT_GE(part.size(), most);
      most = part.size();
    } else {
      EXPECT_THAT(outcome, HasSubstr("no header")) << length;
      EXPECT_EQ(most, 0U);
    }
  }
  EXPECT_EQ(most, all.size());
}

TEST(Reader, ChangedBytesGiveAnErrorOrATrace) {
  const auto bytes = bytes_of(small_run());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    auto changed = bytes;
    for (auto count = 1 + random() % 4; count > 0; --count)
      changed[random() % changed.size()] = static_cast<char>(random());
    const auto outcome = outcome_of(changed);
    refused += outcome == "complete" || outcome == "incomplete" ? 0 : 1;
  }
  EXPECT_GT(refused, 400);
}

TEST(Reader, DuplicatedAndMissingPiecesGiveAnErrorOrATrace) {
  const auto bytes = bytes_of(small_run());
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    auto changed = bytes;
    const auto at = random() % bytes.size();
    const auto length = random() % 200;
    if (i % 2 == 0)
      changed.erase(at, length);
    else
      changed.insert(at, bytes.substr(random() % bytes.size(), length));
    EXPECT_NE(outcome_of(changed), "");
  }
}

TEST(Reader, RefusesWhatIsNoTrace) {
  EXPECT_THAT(outcome_of(""), HasSubstr("no header, so not a Penstock trace"));
  EXPECT_THAT(outcome_of("{\"traceEvents\":[]}"), HasSubstr("byte 0: not a packet of a Perfetto trace"));
  EXPECT_THAT(outcome_of(std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10)),
              HasSubstr("a packet of 9223372036854775807 bytes"));
  EXPECT_THAT(outcome_of(std::string(64, '\xff')), HasSubstr("not a packet"));
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string noise("\x0a\x20");
    for (int k = 0; k < 32; ++k)
      noise.push_back(static_cast<char>(random()));
    EXPECT_THAT(outcome_of(noise), HasSubstr("trace '"));
  }
  const scratch_file file("none.pftrace");
  EXPECT_THROW(read_trace(file.path()), error);
  EXPECT_THROW(read_trace(file.path().parent_path()), error);
}

std::string message_of(const std::string& header) {
  try {
    parse_header(header);
    return "";
  } catch (const error& refused) {
    return refused.what();
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what << " in " << text;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

TEST(Header, CarriesThePlan) {
  auto h = small_run().header;
  h.plan.threads = 3;
  h.plan.window = 2;
  h.plan.stages[1].recompute = true;
  h.plan.stages[0].first_layer = "conv1";
  set_ranks(h, {{1, 0}, {1}});
  EXPECT_EQ(parse_header(to_json(h)).plan, h.plan);
}

TEST(Header, SaysHowManyStagesAreFrozen) {
  auto h = make_run({.name = "pipedream", .replicas = {2, 1}, .frozen_stages = 1, .ahead = 5}, {3}).header;
  EXPECT_EQ(parse_header(to_json(h)).plan, h.plan);
  auto inside = h; // of what a plan says beside it a trace needs nothing
  inside.plan.layer_order = {"layer0", "layer1", "more"};
  inside.plan.stages[1].last_layer = inside.plan.first_active = "more";
  inside.plan.frozen_until = 2;
  EXPECT_EQ(parse_header(to_json(inside)).plan.first_active, "layer1");
  const auto of = [&](const char* by) { return message_of(replaced(to_json(h), R"("frozen_stages":1)", by)); };
  EXPECT_EQ(of(R"("frozen_stages":2)"), "trace header: 2 frozen stages, wanted 1 to 1");
  EXPECT_EQ(of(R"("frozen_stages":0)"), "trace header: 0 frozen stages, wanted 1 to 1");
  EXPECT_EQ(of(R"("frozen_stages":"all")"), "trace header: 'frozen_stages' is not a whole number in range");
  EXPECT_EQ(message_of(replaced(to_json(h), R"("stage_layers":["layer0","layer1"])", R"("stage_layers":[])")),
            "trace header: frozen stages, wanted the names of their layers with them");
}

TEST(Header, RanksAreReadBackAndRefusedWhereTheyDoNotFit) {
  auto good = small_run().header;
  good.run = "a job";
  good.rank = 2;
  set_ranks(good, {{0, 2}, {1}});
  good.hosts = {"a", "b", "a", "spare"};
  good.clock_offset_ns = -3'600'000'000'000;
  good.clock_conflict_ns = 12;
  good.missing = "no trace of rank 1";
  EXPECT_EQ(to_json(parse_header(to_json(good))), to_json(good));
  EXPECT_EQ(rank_count(good), 4);
  EXPECT_EQ(rank_of(good, 0, 1), 2);
  EXPECT_EQ(rank_of(good, -1, 0), -1);
  const auto message = [](const trace_header& h) { return message_of(to_json(h)); };
  auto h = good;
  h.plan.stages[0].ranks.pop_back();
  EXPECT_EQ(message(h), "trace header: 1 ranks for 2 replicas of stage 0");
  h = good;
  EXPECT_EQ(message_of(replaced(to_json(good), R"("ranks":[[0,2],[1]])", R"("ranks":[[0,2]])")),
            "trace header: ranks of 1 stages, wanted 2");
  h.plan.stages[0].ranks.clear();
  EXPECT_EQ(message(h), "trace header: 0 ranks for 2 replicas of stage 0");
  h = good;
  h.plan.stages[1].ranks[0] = -1;
  EXPECT_EQ(message(h), "trace header: stage 1 on rank -1");
  h = good;
  h.plan.stages[1].ranks[0] = 4;
  EXPECT_EQ(message(h), "trace header: 4 hosts for 5 ranks");
  h = good;
  h.rank = 4;
  EXPECT_EQ(message(h), "trace header: rank 4 of 4");
  h = good;
  h.clock_offset_ns = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(message(h), HasSubstr("a clock offset of -9223372036854775808 ns"));
  h = good;
  h.clock_conflict_ns = -1;
  EXPECT_EQ(message(h), "trace header: a clock conflict of -1 ns");
}

TEST(Header, OneWithoutRanksIsOfOneProcess) {
  const auto older = parse_header(
      R"({"format":1,"model":"m","schedule":"pipedream","microbatches":1,"window":0,"replicas":[1],"credits":[1],)"
      R"("stage_layers":[],"stashes_weights":true,"vertical_sync":false,"first_minibatch":0,"minibatches":3,)"
      R"("dropped":0,"complete":true})");
  EXPECT_EQ(older.rank, -1);
  EXPECT_EQ(rank_count(older), 0);
  EXPECT_FALSE(is_merged(older));
  EXPECT_TRUE(older.complete);
}

TEST(Header, RefusesCountsThatDoNotFitTogether) {
  const trace_header good = small_run().header;
  const auto message = [](const trace_header& h) { return message_of(to_json(h)); };
  EXPECT_EQ(message(good), "");
  const auto credits_of = [&](const std::string& list) {
    return message_of(replaced(to_json(good), R"("credits":[2,1])", "\"credits\":" + list));
  };
  EXPECT_EQ(credits_of("[2,1]"), "");
  EXPECT_EQ(credits_of("[2]"), "trace header: 1 credits for 2 stages");
  EXPECT_EQ(message_of(replaced(to_json(good), R"("stage_layers":["layer0","layer1"])", R"("stage_layers":["a"])")),
            "trace header: 1 layer names for 2 stages");
  EXPECT_EQ(message_of(replaced(to_json(good), R"("recompute":[false,false])", R"("recompute":[true])")),
            "trace header: recomputation of 1 stages, wanted 2");
  auto h = good;
  h.plan.stages[1].replicas = 0;
  EXPECT_EQ(message(h), "trace header: a stage of 0 replicas, wanted 1 to 32767");
  h = good;
  h.plan.stages[0].in_flight = 0;
  EXPECT_EQ(message(h), "trace header: a credit of 0, wanted 1 or more");
  h = good;
  h.plan.stages.clear();
  EXPECT_EQ(message(h), "trace header: 0 stages, wanted 1 to 10000");
  EXPECT_THROW(parse_header("{}"), error);
  EXPECT_THROW(parse_header("nothing"), error);
  EXPECT_THROW(parse_header(R"({"format":99999999999999999999})"), error);
}

} // namespace
} // namespace penstock::actors
