// What the profiler measures is what a stage does: the same layers, bytes that are really alive, times that add up.
#include "actors/profiler/byte_counter.hpp"
#include "actors/profiler/measure_machine.hpp"
#include "actors/profiler/profile_model.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/usable_cores.hpp"
#include "planner/explore/explore.hpp"
#include "tests/support/tiny_sequences.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace penstock::testing {
namespace {

using actors::profile_options;

profile_options quick() {
  profile_options o;
  o.samples = {8, 4};
  o.warmup = 1;
  o.repeats = 3;
  o.seconds = 0;
  return o;
}

planner::profile profile_of(const std::shared_ptr<const model>& net, const profile_options& o) {
  return actors::profile_model(net, "tiny", o);
}

TEST(Profiler, ListsTheModelsLayersAndWhoReadsWhom) {
  const auto net = tiny_residual_network();
  const auto p = profile_of(net, quick());
  EXPECT_EQ(p.model, net->name());
  EXPECT_EQ(p.model_options, "tiny");
  EXPECT_EQ(p.input_bytes_per_sample, 3 * 8 * 8 * 4);
  for (const auto* fact : {"processor", "cores", "library", "instruction_set", "optimizer"})
    EXPECT_NE(p.machine.at(fact), "") << fact;
  ASSERT_EQ(p.layers.size(), net->layers().size());
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    EXPECT_EQ(p.layers[l].name, net->layers()[l].name);
    EXPECT_EQ(p.layers[l].kind, net->layers()[l].op->kind());
    EXPECT_EQ(p.layers[l].inputs.size(), p.layers[l].name == "add" ? 2U : 1U) << p.layers[l].name;
    EXPECT_EQ(p.layers[l].fused_with_previous, net->layers()[l].op->kind() == "relu") << p.layers[l].name;
  }
  EXPECT_EQ(p.layers.front().inputs, std::vector<int>{-1});
}

double total(const std::vector<actors::shape_share>& shares) {
  double sum = 0;
  for (const auto& s : shares)
    sum += s.share;
  return sum;
}

TEST(ShapeShares, AreAnEpochsMinibatchesByTheirExtents) {
  const auto net = tiny_sequence_model();
  const tiny_sequences data(44);
  const auto shares = actors::shape_shares(*net, data, {.batch = 8});
  std::map<std::vector<std::int64_t>, double> wanted;
  const auto minibatches = data.minibatches({.batch = 8});
  for (std::int64_t m = 0; m < minibatches->per_epoch(); ++m)
    wanted[{minibatches->facts(m).extents[0]}] += 1 / static_cast<double>(minibatches->per_epoch());
  ASSERT_EQ(shares.size(), wanted.size());
  for (const auto& s : shares)
    EXPECT_NEAR(s.share, wanted.at(s.extents), 1e-12);
  EXPECT_TRUE(actors::shape_shares(*tiny_residual_network(), random_images(20, {3, 8, 8}, 5, 1), {.batch = 4}).empty());
}

TEST(ShapeShares, AreMeansWhereThereAreManyAndKeepTheLargest) {
  const auto net = tiny_sequence_model();
  const tiny_sequences data(44);
  const auto all = actors::shape_shares(*net, data, {.batch = 8});
  const auto one = actors::shape_shares(*net, data, {.batch = 8}, 1);
  ASSERT_EQ(one.size(), 2U);
  EXPECT_NEAR(total(one), 1, 1e-12);
  EXPECT_EQ(one.front().extents, actors::mean_extents(all));
  EXPECT_EQ(one.back().share, 0);
  EXPECT_EQ(one.back().extents, (std::vector<std::int64_t>{9}));
  EXPECT_NEAR(total(actors::shape_shares(*net, data, {.batch = 8}, 2)), 1, 1e-12);
}

TEST(Profiler, WeighsTheLengthsOfTheDataAndKeepsTheMemoryOfTheLongest) {
  const auto net = tiny_sequence_model();
  auto o = quick();
  o.samples = {4};
  const auto embedding = [&](std::vector<actors::shape_share> shapes) {
    o.shapes = std::move(shapes);
    return profile_of(net, o).measurements.at(0).layers.at(0);
  };
  const double row = 4 * 8 * sizeof(float); // of a step
  EXPECT_EQ(embedding({}).output_bytes, 6 * row);
  const auto short_ones = embedding({{{3}, 1}}), long_ones = embedding({{{9}, 1}});
  EXPECT_EQ(short_ones.output_bytes, 3 * row);
  const auto weighed = embedding({{{3}, 0.75}, {{5}, 0.25}, {{9}, 0}});
  EXPECT_EQ(weighed.output_bytes, 3.5 * row);
  EXPECT_EQ(weighed.kept_bytes, long_ones.kept_bytes);
  EXPECT_EQ(weighed.workspace_bytes, long_ones.workspace_bytes);
  EXPECT_GT(weighed.forward_seconds, 0);
}

TEST(Profiler, MeasuresEverySizeWithEveryNumberOfWorkers) {
  auto o = quick();
  o.workers = {1, 2};
  const auto p = profile_of(tiny_residual_network(), o);
  std::set<std::pair<std::int64_t, int>> found;
  for (const auto& m : p.measurements) {
    found.insert({m.samples, m.threads});
    double seconds = 0;
    for (const auto& l : m.layers)
      seconds += l.forward_seconds + l.backward_seconds;
    EXPECT_GT(seconds, 0);
    EXPECT_GT(std::accumulate(m.update_seconds.begin(), m.update_seconds.end(), 0.0), 0);
  }
  const int all = usable_cores();
  std::set<std::pair<std::int64_t, int>> wanted;
  for (const int threads : {all, std::max(1, all / 2)})
    for (const std::int64_t samples : {4, 8})
      wanted.insert({samples, threads});
  EXPECT_EQ(found, wanted);
}

TEST(Profiler, LeavesNoLayerWithoutACostButTheFusedOnes) {
  const auto p = profile_of(tiny_residual_network(), quick());
  for (const auto& m : p.measurements)
    for (std::size_t l = 0; l < p.layers.size(); ++l) {
      if (p.layers[l].fused_with_previous) {
        EXPECT_EQ(m.layers[l].forward_seconds, 0) << p.layers[l].name;
        continue;
      }
      EXPECT_GT(m.layers[l].forward_seconds, 0) << p.layers[l].name;
      EXPECT_GT(m.layers[l].output_bytes, 0) << p.layers[l].name;
    }
}

TEST(Profiler, ScalesBytesWithTheSamples) {
  const auto p = profile_of(tiny_residual_network(0.5F), quick());
  ASSERT_EQ(p.measurements.size(), 2U);
  const auto kept = [](const planner::measurement& m) {
    double sum = 0;
    for (const auto& l : m.layers)
      sum += l.kept_bytes;
    return sum;
  };
  const auto& few = p.measurements[0].samples == 4 ? p.measurements[0] : p.measurements[1];
  const auto& many = p.measurements[0].samples == 4 ? p.measurements[1] : p.measurements[0];
  EXPECT_NEAR(kept(many) / kept(few), 2, 0.1) << "BatchNorm's statistics alone do not grow";
}

TEST(Profiler, StopsWhenItsCallerHasHadEnough) {
  auto o = quick();
  int calls = 0;
  o.progress = [&](int done, int total, const std::string&) {
    EXPECT_LT(done, total);
    return ++calls < 3;
  };
  EXPECT_THROW(profile_of(tiny_residual_network(), o), error);
  EXPECT_EQ(calls, 3);
}

TEST(Profiler, MeasuresNoMicrobatchThatTheModelCannotBeTrainedOn) {
  model_builder b("small", {3, 4, 4});
  auto x = b.add("conv", layers::conv2d({.in_channels = 3, .out_channels = 4, .kernel = {4, 4}}), {b.input()});
  x = b.add("bn", layers::batch_norm2d(4), {x});
  x = b.add("flatten", layers::flatten(), {x});
  const auto net = std::make_shared<const model>(b.build(x));
  auto o = quick();
  o.samples = {1, 2};
  EXPECT_THAT([&] { profile_of(net, o); },
              ::testing::ThrowsMessage<usage_error>(::testing::HasSubstr(
                  "profile: a micro-batch size is 1, wanted at least the 2 that bn of small can be trained on")));
  o.samples = {2};
  EXPECT_EQ(profile_of(net, o).least_samples, 2);
}

TEST(Profiler, RefusesWhatMakesNoSense) {
  const auto refused = [](auto change) {
    auto o = quick();
    change(o);
    EXPECT_THROW(profile_of(tiny_residual_network(), o), usage_error);
  };
  refused([](profile_options& o) { o.samples = {}; });
  refused([](profile_options& o) { o.samples = {0}; });
  refused([](profile_options& o) { o.samples = {4, 4}; });
  refused([](profile_options& o) { o.workers = {}; });
  refused([](profile_options& o) { o.workers = {0}; });
  refused([](profile_options& o) { o.repeats = 2; });
  refused([](profile_options& o) { o.seconds = -1; });
  refused([](profile_options& o) { o.seconds = std::numeric_limits<double>::quiet_NaN(); });
}

TEST(MachineMeasures, DescribeWorkersThatShareThisMachine) {
  const auto c = actors::measure_machine(2);
  EXPECT_EQ(c.device_count(), 2);
  EXPECT_GT(c.devices.front().memory_bytes, 0);
  ASSERT_EQ(c.levels.size(), 1U);
  EXPECT_TRUE(c.levels.front().by_reference);
  EXPECT_GT(c.levels.front().bandwidth_bytes_per_s, 0);
  const auto again = planner::cluster_from_toml(planner::to_toml(c), "again");
  EXPECT_EQ(again.levels.front().bandwidth_bytes_per_s, c.levels.front().bandwidth_bytes_per_s);
  EXPECT_THROW(actors::measure_machine(0), usage_error);
}

// The prediction from a profile against the counters of a run, for the whole kind: schedules, credits, replicas,
// recomputation.
struct memory_case {
  std::string schedule;
  std::vector<int> replicas;
  std::vector<std::string> first_layers;
  int microbatches = 1;
  std::string in_flight;
  bool recompute = false;
};

void PrintTo(const memory_case& c, std::ostream* out) {
  *out << c.schedule << " of " << c.replicas.size() << " stages, M " << c.microbatches << " " << c.in_flight
       << (c.recompute ? " recomputing" : "");
}

class PredictedMemory : public ::testing::TestWithParam<memory_case> {};

TEST_P(PredictedMemory, IsWithinATenthAndAFewMessagesOfWhatARunUses) {
  const auto& c = GetParam();
  const auto net = tiny_residual_network();
  auto options = tiny_options();
  options.batch = 64;
  options.eval_every = -1;
  options.schedule = c.schedule;
  options.replicas = c.replicas;
  options.microbatches = c.microbatches;
  options.threads = 1;
  options.recompute.assign(c.replicas.size(), c.recompute);
  if (!c.in_flight.empty()) options.in_flight = planner::parse_in_flight(c.in_flight);
  const auto layer_index = [&](const std::string& name) {
    for (std::size_t l = 0; l < net->layers().size(); ++l)
      if (net->layers()[l].name == name) return static_cast<int>(l);
    throw std::logic_error("no layer " + name);
  };
  planner::plan plan;
  plan.schedule = c.schedule;
  plan.microbatches = c.microbatches;
  plan.batch = options.batch;
  const auto credits = planner::resolve_schedule(actors::schedule_request_of(options, 1));
  for (std::size_t s = 0; s < c.replicas.size(); ++s) {
    const bool last = s + 1 == c.replicas.size();
    planner::planned_stage stage;
    stage.first_layer = s == 0 ? net->layers().front().name : c.first_layers[s - 1];
    const auto end = last ? net->layers().size() : static_cast<std::size_t>(layer_index(c.first_layers[s]));
    stage.last_layer = net->layers()[end - 1].name;
    stage.replicas = c.replicas[s];
    stage.in_flight = credits.stages[s].credit;
    stage.recompute = c.recompute;
    plan.stages.push_back(stage);
    if (!last) options.cuts.push_back(static_cast<int>(end));
  }
  auto o = quick();
  o.samples = {options.batch, std::max<std::int64_t>(1, options.batch / c.microbatches)};
  if (o.samples[0] == o.samples[1]) o.samples.pop_back();
  o.optimizer = options.optimizer;
  auto cluster = planner::flat_cluster(std::accumulate(c.replicas.begin(), c.replicas.end(), 0), 1e10);
  cluster.levels.front().by_reference = true;
  cluster.devices.front().threads = 1;
  const auto predicted = planner::predict(plan, profile_of(net, o), cluster);
  ASSERT_TRUE(predicted.predicted);
  const auto run = train_tiny(options, {.net = net, .samples = 64 * 40});
  const auto& machine = predicted.predicted->costs->stages;
  for (std::size_t s = 0; s < c.replicas.size(); ++s) {
    // Which messages wait at the fullest moment is the timing's choice; in a network as small as this they are not
    // small.
    const double message = std::max(machine[s].output_bytes[0], s > 0 ? machine[s - 1].output_bytes[0] : 0);
    const auto measured = static_cast<double>(run.summary.stages[s].peak_memory_bytes);
    const auto waiting = static_cast<double>(std::max<std::int64_t>(2, plan.stages[s].in_flight));
    EXPECT_NEAR(predicted.predicted->stages[s].memory.total, measured, 0.1 * measured + waiting * message)
        << "stage " << s;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, PredictedMemory,
    ::testing::Values(memory_case{"pipedream", {1}, {}}, memory_case{"pipedream", {1, 1}, {"conv2"}},
                      memory_case{"pipedream", {1, 1, 1}, {"conv2", "fc1"}, 1, "double"},
                      memory_case{"1f1b", {1, 1}, {"conv2"}, 4}, memory_case{"gpipe", {1, 1}, {"pool"}, 4},
                      memory_case{"gpipe", {1, 1}, {"conv2"}, 8, "", true}, memory_case{"2bw", {1, 1}, {"conv2"}, 4},
                      memory_case{"pipedream", {2, 1}, {"pool"}}, memory_case{"zb-h1", {1, 1}, {"conv2"}, 8},
                      memory_case{"zb-h2", {1, 1, 1}, {"conv2", "fc1"}, 8},
                      memory_case{"zb-h1", {1, 1}, {"conv2"}, 8, "", true}));

} // namespace
} // namespace penstock::testing
