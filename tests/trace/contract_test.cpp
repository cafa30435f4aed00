// What any run can write, the reader reads: random records at the limits of their types, through a file and a merge.
#include "actors/trace/merge.hpp"
#include "actors/trace/plan_epochs.hpp"
#include "actors/trace/reader.hpp"
#include "actors/trace/record_contract.hpp"
#include "actors/trace/recorder.hpp"
#include "kernels/check.hpp"
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/causes.hpp"
#include "tools/trace/command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <sstream>
#include <tuple>

namespace penstock::actors {
namespace {

constexpr std::int64_t bound = std::int64_t{1} << 53;

auto key(const trace_record& r) {
  return std::tuple(r.begin_ns, r.end_ns, r.kind, r.reason, r.stage, r.replica, r.minibatch, r.microbatch,
                    r.version_read, r.version_written, r.bytes, r.stretch, r.peer, r.mailbox_depth, r.rank);
}

std::vector<trace_record> sorted(std::vector<trace_record> records) {
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return key(a) < key(b); });
  return records;
}

class random_run {
public:
  explicit random_run(std::uint64_t seed) : random_(seed) {}

  trace_header header() {
    trace_header h;
    h.model = "any";
    h.plan.schedule = pick(std::vector<std::string>{"pipedream", "1f1b", "no such schedule"});
    set_plan(h.plan);
    h.minibatches = 3;
    return h;
  }

  /// Up to three changes of plan, at any numbers that may follow one another.
  void add_changes(trace_header& h) {
    std::vector<std::int64_t> stretches, minibatches, evaluations;
    const auto changes = 1 + random_() % 3;
    for (std::size_t i = 0; i < changes; ++i) {
      stretches.push_back(any(0, std::numeric_limits<std::int32_t>::max()));
      minibatches.push_back(any(0, bound));
      evaluations.push_back(any(-std::numeric_limits<std::int32_t>::max(), 0));
      for (auto* numbers : {&stretches, &minibatches})
        numbers->back() = std::max<std::int64_t>(0, numbers->back());
      evaluations.back() = std::min<std::int64_t>(0, evaluations.back());
    }
    std::sort(stretches.begin(), stretches.end());
    std::sort(minibatches.begin(), minibatches.end());
    std::sort(evaluations.rbegin(), evaluations.rend());
    for (std::size_t i = 0; i < changes; ++i) {
      auto& change = h.changes.emplace_back();
      change.first_stretch = stretches[i];
      change.first_minibatch = minibatches[i];
      change.first_evaluation = evaluations[i];
      change.plan.schedule = pick(std::vector<std::string>{"2bw", "gpipe", "no such schedule"});
      set_plan(change.plan);
    }
    h.minibatches = bound;
  }

  void set_plan(planner::execution_plan& plan) {
    const auto stages = 1 + random_() % 4;
    for (std::size_t s = 0; s < stages; ++s) {
      auto& stage = plan.stages.emplace_back();
      stage.replicas = static_cast<int>(1 + random_() % 3);
      stage.in_flight = static_cast<std::int64_t>(stages - s);
    }
    plan.microbatches = pick(std::vector<int>{1, 4, std::numeric_limits<int>::max()});
  }

  /// Any value of each field's type, as far as numbers that are added may go; places are the run's.
  trace_record record(const trace_header& h) {
    trace_record r;
    for_each_number(r, [&](track_event::field, auto& number, const number_range&) {
      using number_type = std::remove_reference_t<decltype(number)>;
      number = static_cast<number_type>(any(std::max<std::int64_t>(std::numeric_limits<number_type>::min(), -bound),
                                            std::min<std::int64_t>(std::numeric_limits<number_type>::max(), bound)));
    });
    const auto& plan = plan_of(h, random_() % epoch_count(h)); // whichever its stretch is of
    const auto stages = static_cast<std::int64_t>(plan.stages.size());
    r.stage = static_cast<std::int16_t>(between(-2, stages - 1));
    r.peer = static_cast<std::int16_t>(between(-2, stages - 1));
    r.replica = static_cast<std::int16_t>(
        between(0, r.stage < 0 ? 32767 : plan.stages[static_cast<std::size_t>(r.stage)].replicas - 1));
    r.rank = -1;
    r.kind = static_cast<span_kind>(random_() % span_kinds);
    r.reason = static_cast<wait_reason>(random_() % wait_reasons);
    r.begin_ns = between(0, std::int64_t{1} << 57);
    r.end_ns = r.begin_ns + between(0, std::int64_t{1} << 57);
    return r;
  }

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

private:
  template <class Value>
  Value pick(const std::vector<Value>& values) {
    return values[random_() % values.size()];
  }
  std::int64_t any(std::int64_t least, std::int64_t most) {
    const std::vector<std::int64_t> corners{least, least + 1, -3, -2, -1, 0, 1, most - 1, most};
    return random_() % 4 == 0 ? between(least, most) : pick(corners);
  }
  std::mt19937_64 random_;
};

std::vector<trace_record> records_of(random_run& make, const trace_header& h, std::size_t count) {
  std::vector<trace_record> records;
  for (std::size_t i = 0; i < count; ++i)
    records.push_back(make.record(h));
  return records;
}

TEST(Contract, WhateverARunWritesIsReadBackEqual) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    random_run make(seed);
    const auto h = make.header();
    const synthetic_run run{h, records_of(make, h, 200)};
    const scratch_file file("any.pftrace");
    run.write(file.path());
    const auto read = read_trace(file.path());
    ASSERT_EQ(sorted(read.records), sorted(run.records)) << "seed " << seed;
    EXPECT_TRUE(read.complete()) << read.missing;
    EXPECT_EQ(read.header.dropped, 0);
  }
}

TEST(Contract, WhateverARunThatChangedWritesIsReadBackEqual) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    random_run make(seed);
    auto h = make.header();
    make.add_changes(h);
    const auto records = records_of(make, h, 200);
    const scratch_file file("any.pftrace");
    {
      auto first = h;
      first.changes.clear();
      trace_recorder recorder(file.path(), first);
      for (const auto& change : h.changes)
        recorder.change_plan(change);
      for (const auto& r : records)
        recorder.record(r);
      recorder.close(h.minibatches);
    }
    const auto read = read_trace(file.path());
    ASSERT_EQ(sorted(read.records), sorted(records)) << "seed " << seed;
    EXPECT_TRUE(read.complete()) << read.missing;
    EXPECT_EQ(read.header.changes, h.changes) << "seed " << seed;
    EXPECT_EQ(read.header.dropped, 0);
  }
}

TEST(Contract, WhateverRanksWriteIsMergedAndReadBackEqual) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    random_run make(seed);
    auto h = make.header();
    h.hosts = {"a", "a", "a"};
    h.run = "a job";
    for (auto& stage : h.plan.stages)
      while (stage.ranks.size() < static_cast<std::size_t>(stage.replicas))
        stage.ranks.push_back(static_cast<int>(make.between(0, 2)));
    std::vector<std::unique_ptr<scratch_file>> files;
    std::vector<std::filesystem::path> paths;
    std::vector<trace_record> all;
    for (h.rank = 0; h.rank < 3; ++h.rank) {
      synthetic_run run{h, records_of(make, h, 100)};
      files.push_back(std::make_unique<scratch_file>("rank.pftrace"));
      run.write(paths.emplace_back(files.back()->path()));
      for (auto& r : run.records) {
        r.rank = static_cast<std::int16_t>(h.rank);
        all.push_back(r);
      }
    }
    const scratch_file merged("merged.pftrace");
    EXPECT_EQ(merge_traces(paths, merged.path()).records, 300);
    const auto read = read_trace(merged.path());
    ASSERT_EQ(sorted(read.records), sorted(all)) << "seed " << seed;
    EXPECT_TRUE(read.complete()) << read.missing;
  }
}

TEST(Contract, EveryCommandTakesWhateverIsRead) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    random_run make(seed);
    auto h = make.header();
    if (seed % 2 == 0) make.add_changes(h);
    const synthetic_run run{h, records_of(make, h, 60)};
    const scratch_file file("any.pftrace");
    run.write(file.path());
    const std::string name = file.path().string();
    for (const std::vector<std::string>& words : {std::vector<std::string>{"summary", name},
                                                  {"summary", name, "--json"},
                                                  {"timeline", name},
                                                  {"timeline", name, "--from", "0", "--to", "9007199254740992"},
                                                  {"lifeline", name, "0"},
                                                  {"lifeline", name, "9007199254740992"},
                                                  {"check", name},
                                                  {"diff", name, name},
                                                  {"diff", name, name, "--json"}}) {
      std::ostringstream out, err;
      const int code = trace_command(words, out, err);
      EXPECT_LE(code, 1) << words[0] << " of seed " << seed << ": " << err.str();
      const auto said = err.str();
      EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 2) << said;
      EXPECT_EQ(said.find("byte"), std::string::npos) << said; // refused where it is read
    }
  }
}

TEST(Contract, WhatNoFileCanHoldIsLeftOutAndCounted) {
  random_run make(1);
  auto h = make.header();
  set_stages(h, {2, 1}, {2, 1});
  const auto good = records_of(make, h, 4);
  auto bad = good;
  bad[0].bytes = bound + 1;
  bad[1].stage = 2;
  bad[2].begin_ns = -1;
  bad[3].rank = 0; // the run has none
  auto both = good;
  both.insert(both.end(), bad.begin(), bad.end());
  const scratch_file file("bad.pftrace");
  {
    trace_recorder recorder(file.path(), h);
    for (const auto& r : both)
      recorder.record(r);
    recorder.close(3);
    EXPECT_EQ(recorder.dropped(), 4);
  }
  const auto read = read_trace(file.path());
  EXPECT_EQ(sorted(read.records), sorted(good));
  EXPECT_EQ(read.missing, "4 records were dropped while recording");
}

TEST(Contract, AHeaderThatNoFileMayHaveIsRefusedBeforeTheRun) {
  random_run make(1);
  const scratch_file file("header.pftrace");
  auto h = make.header();
  h.plan.stages.assign(10'000, {.replicas = 32'767, .in_flight = 1});
  try {
    const trace_recorder recorder(file.path(), h);
    FAIL();
  } catch (const error& refused) {
    EXPECT_STREQ(refused.what(), "trace header: 327670000 replicas of 10000 stages, at most 32767 are read");
  }
}

} // namespace
} // namespace penstock::actors
