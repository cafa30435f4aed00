// What holds for every schedule on every machine, on random ones with fixed seeds.
#include "planner/cluster/cluster.hpp"
#include "planner/machine.hpp"
#include "tests/planner/list_text.hpp"
#include "tests/planner/machine_shapes.hpp"
#include "tests/planner/random_requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace penstock::planner::testing {
namespace {

schedule_request any_request(dice& d) {
  const auto names = schedule_names();
  schedule_request r;
  r.name = names[static_cast<std::size_t>(d.between(0, static_cast<int>(names.size()) - 1))];
  r.replicas.assign(static_cast<std::size_t>(r.name == "data-parallel" ? 1 : d.between(1, 4)), d.between(1, 3));
  const bool is_interleaved = r.name == "interleaved";
  if (is_interleaved) r.chunks = d.between(1, 3);
  if (r.name != "pipedream-vertical-sync" && !is_interleaved)
    for (auto& replicas : r.replicas)
      replicas = d.between(1, 3);
  // 2bw's own default where M may not be chosen freely.
  r.microbatches = r.name.starts_with("pipedream") || r.name == "2bw" ? 0 : d.between(1, 6);
  r.minibatches = d.between(1, 10);
  r.window = d.between(0, 3);
  if (!is_interleaved) r.in_flight.kind = static_cast<in_flight_spec::mode>(d.between(0, 3));
  freeze_some(d, r);
  return r;
}

machine random_machine(dice& d, const schedule& s) {
  machine m;
  int devices = 0;
  const auto microbatches = s.microbatches;
  for (int i = 0; i < static_cast<int>(s.stages.size()); ++i) {
    machine_stage stage;
    for (int r = 0; position_of(s, i) == i && r < s.stages[static_cast<std::size_t>(i)].replicas; ++r)
      stage.devices.push_back(devices++);
    stage.forward_seconds.clear();
    const auto sizes = d.coin() ? 1 : microbatches;
    for (int k = 0; k < sizes; ++k)
      stage.forward_seconds.push_back(d.number(0, 3));
    stage.backward_seconds = {d.number(0, 3)};
    stage.accumulate_seconds = d.coin() ? d.number(0, 0.5) : 0;
    stage.update_seconds = d.coin() ? d.number(0, 1) : 0;
    stage.output_bytes = {d.number(0, 2)};
    stage.all_reduce_bytes = d.coin() ? d.number(0, 4) : 0;
    stage.all_reduce_overlaps = d.coin();
    stage.weight_bytes = 100;
    stage.gradient_bytes = 10;
    stage.kept_bytes = {1};
    m.stages.push_back(std::move(stage));
  }
  // Two levels of at most 4 and 3; a device may also serve two stages.
  if (d.coin())
    for (auto& stage : m.stages)
      for (auto& device : stage.devices)
        device = d.between(0, devices - 1);
  for (int i = 0; i < static_cast<int>(s.stages.size()); ++i)
    m.stages[static_cast<std::size_t>(i)].devices = m.stages[static_cast<std::size_t>(position_of(s, i))].devices;
  const auto link = [&](int group) {
    return machine_link{.group = group,
                        .bytes_per_second = d.coin() ? d.number(0.5, 10) : 0,
                        .latency_s = d.coin() ? d.number(0, 0.3) : 0,
                        .shared = d.coin(),
                        .half_duplex = d.coin(),
                        .by_reference = d.coin(),
                        .point_to_point = d.coin()};
  };
  if (d.between(0, 3) > 0) m.links = {link(4), link(3)};
  return m;
}

void expect_nothing_is_missing(const schedule& s, const machine_run& run) {
  for (std::size_t stage = 0; stage < s.stages.size(); ++stage) {
    std::map<std::pair<int, action_kind>, std::size_t> done;
    for (const auto& span : run.spans)
      if (span.stage == static_cast<int>(stage)) ++done[{span.replica, span.what.kind}];
    for (int r = 0; r < s.stages[stage].replicas; ++r)
      for (const auto kind : {action_kind::forward, action_kind::backward, action_kind::update}) {
        const auto list = list_of(s, static_cast<int>(stage), r);
        const auto listed = static_cast<std::size_t>(
            std::count_if(list.begin(), list.end(), [&](const action& a) { return a.kind == kind; }));
        const auto found = done[{r, kind}];
        // Where one update serves all replicas it is the first one's.
        const bool is_served = kind == action_kind::update && r > 0 && found == 0;
        ASSERT_TRUE(found == listed || is_served) << "stage " << stage << " replica " << r;
      }
    double busy = 0;
    for (const auto& span : run.spans)
      if (span.stage == static_cast<int>(stage)) busy += span.end - span.begin;
    ASSERT_NEAR(run.busy[stage] * s.stages[stage].replicas, busy, 1e-9);
  }
}

void expect_devices_do_one_thing_at_a_time(const machine& m, const machine_run& run) {
  std::map<int, double> free_at;
  for (const auto& span : run.spans) { // in order of begin
    auto& free =
        free_at[m.stages[static_cast<std::size_t>(span.stage)].devices[static_cast<std::size_t>(span.replica)]];
    ASSERT_GE(span.begin, free - 1e-9);
    free = std::max(free, span.end);
  }
  ASSERT_LE(run.makespan, 1e-9 + std::max_element(free_at.begin(), free_at.end(), [](auto& a, auto& b) {
                                   return a.second < b.second;
                                 })->second);
}

/// Inputs arrive before they are used, versions are written before they are read, credits are kept.
void expect_causes_before_effects(const schedule& s, const machine_run& run) {
  using key = std::tuple<int, transfer_kind, std::int64_t, std::int32_t>;
  std::map<key, double> arrivals;
  for (const auto& t : run.transfers)
    if (t.what != transfer_kind::all_reduce) arrivals[{t.to_stage, t.what, t.minibatch, t.microbatch}] = t.end;
  std::map<std::tuple<int, int, std::int64_t>, double> versions; // by stage, replica
  for (const auto& span : run.spans)
    if (span.what.kind == action_kind::update) versions[{span.stage, span.replica, span.what.version}] = span.end;
  for (const auto& span : run.spans) {
    const auto& a = span.what;
    if (a.kind == action_kind::update) continue;
    const bool is_forward = a.kind == action_kind::forward;
    const bool has_input = is_forward ? span.stage > 0 : static_cast<std::size_t>(span.stage) + 1 < s.stages.size();
    if (has_input) {
      const auto arrival = arrivals.find(
          {span.stage, is_forward ? transfer_kind::activation : transfer_kind::gradient, a.minibatch, a.microbatch});
      ASSERT_NE(arrival, arrivals.end());
      ASSERT_GE(span.begin, arrival->second);
    }
    if (a.version > 0 && is_forward) {
      const auto own = versions.find({span.stage, span.replica, a.version});
      ASSERT_GE(span.begin, own != versions.end() ? own->second : versions.at({span.stage, 0, a.version}));
    }
  }
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    ASSERT_LE(run.peak_in_flight[i], s.stages[i].credit);
    const auto& memory = run.memory[i];
    if (s.window == 0) {
      ASSERT_LE(memory.versions, s.stages[i].readable_versions) << "stage " << i;
    }
    ASSERT_LE(memory.total, memory.weights + memory.gradients + memory.optimizer_state + memory.activations +
                                memory.workspace + 1e-9);
    ASSERT_GE(memory.total, memory.weights);
  }
}

TEST(MachineProperties, EveryScheduleRunsOnEveryMachine) {
  dice d(11);
  for (int i = 0; i < 3000; ++i) {
    const auto r = any_request(d);
    SCOPED_TRACE(std::to_string(i) + ": " + show(r));
    const auto s = resolve_schedule(r);
    const auto m = random_machine(d, s);
    machine_options options{.jitter = d.coin() ? 0.4 : 0, .seed = static_cast<std::uint64_t>(i)};
    const auto run = run_machine(s, m, options);
    expect_nothing_is_missing(s, run);
    expect_devices_do_one_thing_at_a_time(m, run);
    expect_causes_before_effects(s, run);
    ASSERT_FALSE(HasFatalFailure());
    options.keep_spans = false;
    const auto figures = run_machine(s, m, options);
    ASSERT_EQ(figures.makespan, run.makespan);
    ASSERT_EQ(figures.step_seconds, run.step_seconds);
    ASSERT_EQ(figures.bytes_sent, run.bytes_sent);
    ASSERT_TRUE(figures.spans.empty() && figures.transfers.empty());
  }
}

TEST(MachineProperties, LinksNeverMakeARunShorter) {
  // With exact lists, devices of their own and updates that take no time, whatever comes later delays what follows.
  dice d(12);
  for (int i = 0; i < 1000; ++i) {
    auto r = any_request(d);
    r.window = 0;
    r.chunks = 1; // each stage has devices of its own
    SCOPED_TRACE(std::to_string(i) + ": " + show(r));
    const auto s = resolve_schedule(r);
    auto m = random_machine(d, s);
    int device = 0;
    for (auto& stage : m.stages) {
      stage.update_seconds = 0;
      for (auto& used : stage.devices)
        used = device++;
    }
    for (auto& link : m.links)
      link.by_reference = false; // one process's updates wait for its first worker, who may be free earlier for them
    const auto with_links = run_machine(s, m);
    for (auto& link : m.links)
      link = {.group = link.group};
    ASSERT_GE(with_links.makespan, run_machine(s, m).makespan - 1e-9);
  }
}

TEST(MachineProperties, ARunTakesAtLeastItsCriticalPathAndItsBusiestDevice) {
  dice d(13);
  for (int i = 0; i < 1000; ++i) {
    const auto r = any_request(d);
    SCOPED_TRACE(std::to_string(i) + ": " + show(r));
    const auto s = resolve_schedule(r);
    const auto m = random_machine(d, s);
    const auto run = run_machine(s, m);
    double there_and_back = 0; // of the first micro-batch
    for (std::size_t stage = 0; stage < m.stages.size(); ++stage) {
      there_and_back += m.stages[stage].forward_seconds.front();
      if (s.is_frozen(static_cast<int>(stage))) continue;
      // Of a split backward the weights' part, half of it here, is waited for by nobody.
      const bool is_split = s.name.starts_with("zb-") && static_cast<int>(stage) > s.frozen_stages;
      there_and_back += m.stages[stage].backward_seconds.front() / (is_split ? 2 : 1);
      ASSERT_GE(run.makespan, run.busy[stage] - 1e-9);
    }
    ASSERT_GE(run.makespan, there_and_back - 1e-9);
    ASSERT_GE(run.bubble(), -1e-9);
  }
}

TEST(MachineProperties, AFrozenPrefixIsAsFastInTheLongRunAsInAFewMinibatches) {
  dice d(15);
  int frozen = 0;
  for (int i = 0; i < 400; ++i) {
    auto r = any_request(d);
    if (r.frozen_stages == 0) continue;
    ++frozen;
    r.ahead = d.between(0, 20);
    r.window = 0;
    SCOPED_TRACE(std::to_string(i) + ": " + show(r));
    auto s = resolve_schedule(r);
    machine m;
    int devices = 0;
    for (const auto& stage : s.stages) {
      m.stages.push_back({.forward_seconds = {d.number(0.5, 3)}, .backward_seconds = {d.number(0.5, 3)}});
      for (int replica = 0; replica < stage.replicas; ++replica)
        m.stages.back().devices.push_back(devices++);
    }
    s.minibatches = steady_minibatches(s);
    const auto few = run_machine(s, m, {.keep_spans = false}).step_seconds;
    s.minibatches *= 8;
    ASSERT_NEAR(few, run_machine(s, m, {.keep_spans = false}).step_seconds, 0.03 * few);
    double slowest = 0; // of the stages alone, for a minibatch
    for (std::size_t stage = 0; stage < s.stages.size(); ++stage) {
      auto seconds = m.stages[stage].forward_seconds[0];
      if (!s.is_frozen(static_cast<int>(stage))) seconds += m.stages[stage].backward_seconds[0];
      slowest = std::max(slowest, seconds * s.microbatches / s.stages[stage].replicas);
    }
    ASSERT_GE(few, slowest * (1 - 1e-9));
  }
  EXPECT_GT(frozen, 50);
}

/// The searches charge what the simulator plays.
TEST(MachineProperties, AnAllReduceAloneTakesWhatTheClusterSays) {
  dice d(14);
  for (int i = 0; i < 500; ++i) {
    const auto level = [&](int group) {
      return link_level{.group = group,
                        .bandwidth_bytes_per_s = d.number(0.5, 10),
                        .latency_s = d.number(0, 0.3),
                        .shared = d.coin(),
                        .half_duplex = d.coin(),
                        .by_reference = d.coin()};
    };
    auto c = flat_cluster(12, 1);
    c.levels = {level(2), level(3), level(2)};
    const auto replicas = d.between(2, 6);
    std::vector<int> devices(12);
    std::iota(devices.begin(), devices.end(), 0);
    for (std::size_t at = devices.size(); at-- > 1;)
      std::swap(devices[at], devices[static_cast<std::size_t>(d.between(0, static_cast<int>(at)))]);
    devices.resize(static_cast<std::size_t>(replicas));
    auto m = uniform_machine({replicas}, {.all_reduce_bytes = d.number(0.1, 5), .all_reduce_overlaps = false});
    m.stages[0].devices = devices;
    for (const auto& l : c.levels)
      m.links.push_back(
          {l.group, l.bandwidth_bytes_per_s, l.latency_s, l.shared, l.half_duplex, l.by_reference, false});
    const auto run = run_machine(resolve_schedule(request("data-parallel", {replicas}, replicas, 1)), m);
    ASSERT_NEAR(run.all_reduce_seconds[0], all_reduce_seconds(c, devices, m.stages[0].all_reduce_bytes), 1e-9) << i;
    ASSERT_NEAR(run.makespan, 3 + run.all_reduce_seconds[0], 1e-9) << i;
  }
}

} // namespace
} // namespace penstock::planner::testing
