// Every order in which a pipeline's events can happen gives the oracle's bits: thousands of orders, drawn from seeds.
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "tests/actors/scripted/scripted_run.hpp"
#include "tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace penstock::testing {
namespace {

// Small enough that thousands of runs take seconds, with BatchNorm, dropout and a skip connection.
std::shared_ptr<const model> very_tiny_network() {
  using namespace layers;
  model_builder b("very tiny", {2, 2, 2});
  auto x = b.add("conv1", conv2d({.in_channels = 2, .out_channels = 2, .kernel = {1, 1}, .bias = false}), {b.input()});
  x = b.add("bn1", batch_norm2d(2), {x});
  const auto skip = b.add("relu1", relu(), {x});
  x = b.add("conv2", conv2d({.in_channels = 2, .out_channels = 2, .kernel = {1, 1}}), {skip});
  x = b.add("add", layers::add(), {x, skip});
  x = b.add("flatten", flatten(), {x});
  x = b.add("drop", layers::dropout(0.25F), {x});
  x = b.add("fc1", linear({.in_features = 8, .out_features = 4}), {x});
  x = b.add("relu2", relu(), {x});
  x = b.add("fc2", linear({.in_features = 4, .out_features = 3}), {x});
  return std::make_shared<const model>(b.build(x));
}

struct tiny_world {
  std::shared_ptr<const model> net = very_tiny_network();
  random_images train{22, {2, 2, 2}, 3, 5};
  random_images test{7, {2, 2, 2}, 3, 6};

  actors::run_inputs inputs(bool evaluates) const {
    actors::run_inputs in;
    in.net = net;
    in.train = &train;
    if (evaluates) in.test = &test;
    in.model_options = net->name();
    return in;
  }
};

template <class T>
T pick(std::mt19937_64& bits, std::initializer_list<T> from) {
  return *(from.begin() + static_cast<std::ptrdiff_t>(bits() % from.size()));
}

run_setup random_setup(std::mt19937_64& bits) {
  run_setup o;
  o.schedule = pick(bits, {"pipedream", "pipedream", "1f1b", "gpipe", "2bw", "pipedream-vertical-sync", "data-parallel",
                           "pipedream-naive", "model-parallel", "zb-h1", "zb-h2", "interleaved", "interleaved"});
  const bool is_interleaved = o.schedule == "interleaved";
  if (is_interleaved) o.chunks = pick(bits, {1, 2, 3});
  const int stages = o.schedule == "data-parallel" ? 1 : static_cast<int>(1 + bits() % (is_interleaved ? 3 : 4));
  const bool is_even = o.schedule == "pipedream-vertical-sync" || is_interleaved;
  const int replicas = pick(bits, {1, 1, 2, 3});
  o.replicas.clear();
  for (int s = 0; s < stages; ++s)
    o.replicas.push_back(is_even ? replicas : pick(bits, {1, 1, 2, 3}));
  const bool takes_microbatches = !o.schedule.starts_with("pipedream") && o.schedule != "2bw";
  o.microbatches = takes_microbatches ? pick(bits, {0, 1, 3, 4}) : 0;
  if (!is_interleaved) o.in_flight = planner::parse_in_flight(pick(bits, {"tight", "tight", "double", "full"}));
  if (o.schedule == "pipedream" && bits() % 2 == 0)
    for (int s = 0; s < stages; ++s)
      o.update_lag.push_back(pick(bits, {0, 1, 1, 2}));
  o.window = pick(bits, {0, 0, 0, 2});
  if (bits() % 4 == 0) o.recompute.assign(static_cast<std::size_t>(stages * actors::chunks_of(o)), true);
  o.batch = 4;
  o.steps = pick(bits, {3, 5, 8});
  o.threads = 1;
  o.pin = false;
  o.reference_kernels = true;
  o.optimizer.momentum = 0.9F;
  o.lr.base = 0.05F;
  o.eval_batch = 3;
  o.eval_every = 1;
  if (bits() % 4 == 0 && takes_microbatches) o.clip_norm = 0.5;
  if (bits() % 4 == 0 && o.clip_norm == 0) o.clip_stage_norm = 0.5;
  if (bits() % 4 == 0) o.optimizer = {.name = "asgd", .average_from = static_cast<std::int64_t>(bits() % 6)};
  if (bits() % 3 == 0) o.frozen_until = 1 + static_cast<int>(bits() % 9); // fc2, the last, is active
  if (o.frozen_until > 0 && bits() % 2 == 0) o.ahead = 1 + static_cast<std::int64_t>(bits() % 4);
  return o;
}

// A rank a worker at most, and no more micro-batches than samples.
std::optional<scripted_case> random_case(const tiny_world& world, std::mt19937_64& bits) {
  scripted_case c;
  const auto o = random_setup(bits);
  c.inputs = world.inputs(bits() % 2 == 0);
  int workers = 0;
  for (const int r : o.replicas)
    workers += r;
  const int ranks = std::min(workers, pick(bits, {1, 1, 2, 3}));
  try {
    c.plan = actors::resolve_run(actors::settle_request(o, *world.net), o, c.inputs);
    c.plan.plan = actors::settle_request(o, *world.net, {ranks, 0}); // resolve_run deals to the processes there are
  } catch (const usage_error&) {
    return {}; // such as 2bw with more micro-batches than samples
  }
  if (bits() % 2 == 0) c.drain_wishes = {static_cast<int>(bits() % 200)};
  if (bits() % 4 == 0) c.drain_wishes.push_back(static_cast<int>(bits() % 600));
  return c;
}

std::string describe(const scripted_case& c, std::uint64_t seed) {
  const auto& p = *c.plan.plan;
  std::string text = "seed " + std::to_string(seed) + ": " + p.schedule + ", replicas";
  for (const auto& stage : p.stages)
    text += " " + std::to_string(stage.replicas) +
            (stage.update_lag > 0 ? " (lag " + std::to_string(stage.update_lag) + ")" : "");
  text += ", " + std::to_string(p.chunks) + " chunks a worker";
  if (p.frozen_until > 0) text += ", frozen before " + p.first_active + ", " + std::to_string(p.ahead) + " ahead";
  return text + ", M " + std::to_string(p.microbatches) + ", window " + std::to_string(p.window) + ", " +
         std::to_string(p.processes) + " ranks, " + std::to_string(c.plan.options.steps) + " steps";
}

/// What is wrong with a run; empty: nothing.
class judge {
public:
  explicit judge(const scripted_case& c) : case_(c) {}

  std::string operator()(script& choices) {
    const auto got = run_scripted(case_, choices);
    if (!got.fault.empty()) return got.fault;
    if (case_.lost_after >= 0) return "";
    auto& wanted = known_[got.stretches];
    if (wanted.weights.empty()) wanted = run_oracle(case_, got.stretches);
    if (got.losses != wanted.losses) return "the evaluations differ from the oracle's";
    return got.weights == wanted.weights ? "" : "the weights differ from the oracle's";
  }

private:
  const scripted_case& case_;
  std::map<std::vector<std::int64_t>, scripted_outcome> known_;
};

/// The shortest script with a fault, as a text of what happens.
std::string shrunk(const scripted_case& c, judge& judged, std::vector<std::uint32_t> failing) {
  const auto shorter = shrink(std::move(failing), [&](const std::vector<std::uint32_t>& choices) {
    script again(choices);
    return !judged(again).empty();
  });
  script again(shorter);
  const auto run = run_scripted(c, again, true);
  std::string text = std::to_string(shorter.size()) + " choices, then whatever is oldest:";
  for (std::size_t i = 0; i < std::min<std::size_t>(run.log.size(), shorter.size() + 5); ++i)
    text += "\n  " + run.log[i];
  return text;
}

std::size_t interleavings() {
  const char* asked = std::getenv("PENSTOCK_INTERLEAVINGS");
  return asked != nullptr ? std::strtoul(asked, nullptr, 10) : 10000;
}

class ScriptedPipelines : public ::testing::TestWithParam<int> {};

// Eight parts, so that they run side by side.
constexpr int test_parts = 8;
constexpr std::size_t orders_of_a_case = 25;

TEST_P(ScriptedPipelines, GiveTheOraclesBitsInEveryOrderOfEvents) {
  const tiny_world world;
  const auto cases = std::max<std::size_t>(1, interleavings() / orders_of_a_case / test_parts);
  std::mt19937_64 bits(static_cast<std::uint64_t>(GetParam()) * 7919 + 1);
  for (std::size_t i = 0; i < cases; ++i) {
    const auto c = random_case(world, bits);
    if (!c) continue;
    judge judged(*c);
    for (std::size_t order = 0; order < orders_of_a_case; ++order) {
      const auto seed = bits();
      script choices(seed);
      const auto fault = judged(choices);
      if (fault.empty()) continue;
      FAIL() << describe(*c, seed) << "\n" << fault << "\n" << shrunk(*c, judged, choices.choices());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Part, ScriptedPipelines, ::testing::Range(0, test_parts));

TEST(ScriptedLoss, IsToldToEverySurvivorAtAnyMoment) {
  const tiny_world world;
  std::mt19937_64 bits(3);
  int runs = 0;
  while (runs < 200) {
    auto c = random_case(world, bits);
    if (!c || c->plan.plan->processes < 2) continue;
    c->lost_after = static_cast<int>(bits() % 300);
    script choices(bits());
    EXPECT_EQ(run_scripted(*c, choices).fault, "") << describe(*c, 0);
    ++runs;
  }
}

// The tests would be worth nothing if a wrong rule went through.
class ScriptedMutation : public ::testing::Test {
protected:
  static scripted_case of(const char* schedule, std::vector<int> replicas, std::vector<std::int64_t> lags = {}) {
    static const tiny_world world;
    run_setup o;
    o.schedule = schedule;
    o.replicas = std::move(replicas);
    o.update_lag = std::move(lags);
    o.batch = 4;
    o.steps = 8;
    o.threads = 1;
    o.pin = false;
    o.reference_kernels = true;
    o.lr.base = 0.05F;
    scripted_case c;
    c.inputs = world.inputs(false);
    c.plan = actors::resolve_run(actors::settle_request(o, *world.net), o, c.inputs);
    return c;
  }
  static std::string fault_of(const scripted_case& c) {
    judge judged(c);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      script choices(seed);
      if (auto fault = judged(choices); !fault.empty()) return fault;
    }
    return "";
  }
};

TEST_F(ScriptedMutation, OfTheVersionRuleIsCaught) {
  auto c = of("pipedream", {1, 1, 1, 1});
  EXPECT_EQ(fault_of(c), "");
  c.mutate = [](planner::schedule& s) {
    s.name = "pipedream-naive";
    s.stashes_weights = false;
  };
  EXPECT_NE(fault_of(c), "");
  c.mutate = [](planner::schedule& s) { s.name = "pipedream-vertical-sync"; };
  EXPECT_NE(fault_of(c), "");
}

TEST_F(ScriptedMutation, OfTheCreditRuleIsCaught) {
  auto c = of("pipedream", {1, 1, 1, 1});
  c.mutate = [](planner::schedule& s) { --s.stages[1].credit; };
  EXPECT_NE(fault_of(c), "") << "versions follow credits";
  c.mutate = [](planner::schedule& s) { s.stages[0].credit += 4; };
  EXPECT_NE(fault_of(c), "") << "more than the inboxes may hold";
}

TEST_F(ScriptedMutation, OfTheLagRuleIsCaught) {
  for (const std::int64_t lag : {0, 1}) {
    auto c = of("pipedream", {2, 1, 1}, {lag});
    EXPECT_EQ(fault_of(c), "");
    for (const std::size_t stage : {0, 1, 2}) {
      c.mutate = [stage](planner::schedule& s) { ++s.stages[stage].update_lag; };
      EXPECT_NE(fault_of(c), "") << "stage " << stage;
      c.mutate = [stage](planner::schedule& s) { --s.stages[stage].update_lag; };
      if (lag > 0) {
        EXPECT_NE(fault_of(c), "") << "stage " << stage;
      }
    }
  }
}

TEST_F(ScriptedMutation, OfTheDealingIsCaught) {
  auto c = of("pipedream", {2, 1});
  EXPECT_EQ(fault_of(c), "");
  c.mutate = [](planner::schedule& s) { s.stages[0].replicas = 1; };
  EXPECT_NE(fault_of(c), "");
}

TEST_F(ScriptedMutation, OfAnUpdatesPlaceOnItsStreamIsCaught) {
  for (const auto* schedule : {"pipedream", "gpipe", "zb-h1", "2bw"}) {
    auto c = of(schedule, {1, 1});
    EXPECT_EQ(fault_of(c), "") << schedule;
    c.updates_jump_the_queue = true;
    EXPECT_NE(fault_of(c), "") << schedule;
  }
}

TEST(Script, ShrinksToTheChoicesThatMatter) {
  std::vector<std::uint32_t> failing(100, 3);
  const auto fails = [](const std::vector<std::uint32_t>& c) { return c.size() > 40 && c[40] == 3 && c[7] == 3; };
  const auto least = shrink(failing, fails);
  EXPECT_EQ(least.size(), 41U);
  EXPECT_EQ(std::count_if(least.begin(), least.end(), [](auto v) { return v != 0; }), 2);
}

} // namespace
} // namespace penstock::testing
