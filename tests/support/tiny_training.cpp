// The tiny network and its data.
#include "tests/support/tiny_training.hpp"

#include "actors/layer_actor.hpp"
#include "actors/ranks/job.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "transport/in_process.hpp"

#include <future>
#include <random>

namespace penstock::testing {

random_images::random_images(std::int64_t samples, shape dims, std::int64_t classes, std::uint64_t seed)
    : samples_(samples), dims_(std::move(dims)), classes_(classes), seed_(seed) {}

std::int64_t random_images::load(const actors::sample_key& key, bool, float* input) const {
  std::mt19937_64 bits(seed_ * 1000003 + static_cast<std::uint64_t>(key.index));
  const auto label = static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(classes_));
  for (std::int64_t i = 0; i < element_count(dims_); ++i)
    input[i] = static_cast<float>(bits() >> 40) / static_cast<float>(1 << 24) - 0.5F + 0.1F * static_cast<float>(label);
  return label;
}

std::shared_ptr<const model> tiny_residual_network(float dropout) {
  using namespace layers;
  model_builder b("tiny", {3, 8, 8});
  auto x =
      b.add("conv1",
            conv2d({.in_channels = 3, .out_channels = 8, .kernel = {3, 3}, .args = {.padding = {1, 1}}, .bias = false}),
            {b.input()});
  x = b.add("bn1", batch_norm2d(8), {x});
  const auto skip = b.add("relu1", relu(), {x});
  x = b.add("conv2",
            conv2d({.in_channels = 8, .out_channels = 8, .kernel = {3, 3}, .args = {.padding = {1, 1}}, .bias = false}),
            {skip});
  x = b.add("bn2", batch_norm2d(8), {x});
  x = b.add("add", layers::add(), {x, skip});
  x = b.add("relu2", relu(), {x});
  x = b.add("pool", pool2d({}), {x});
  x = b.add("flatten", flatten(), {x});
  x = b.add("drop", layers::dropout(dropout), {x});
  x = b.add("fc1", linear({.in_features = 128, .out_features = 16}), {x});
  x = b.add("relu3", relu(), {x});
  x = b.add("fc2", linear({.in_features = 16, .out_features = 5}), {x});
  return std::make_shared<const model>(b.build(x));
}

run_setup tiny_options() {
  run_setup o;
  o.batch = 8;
  o.epochs = 2;
  o.threads = 1;
  o.pin = false;
  o.optimizer.momentum = 0.9F;
  o.optimizer.weight_decay = 1e-3F;
  o.lr.base = 0.05F;
  o.eval_batch = 7;
  o.stall_seconds = 20;
  return o;
}

namespace {

std::vector<actors::plan_change> changes_of(const tiny_extras& extras, const model& net, actors::job_place where) {
  std::vector<actors::plan_change> changes;
  for (const auto& [step, request] : extras.changes)
    changes.push_back({step, actors::settle_request(request, net, where)});
  return changes;
}

struct tiny_data {
  explicit tiny_data(const tiny_extras& extras) : train(extras.samples, {3, 8, 8}, 5, 11) {
    inputs.net = extras.net ? extras.net : tiny_residual_network();
    inputs.train = extras.train != nullptr ? extras.train : &train;
    inputs.test = extras.test != nullptr ? extras.test : &test;
    inputs.model_options = inputs.net->name();
    inputs.layer_actors = extras.layer_actors;
  }
  random_images train;
  random_images test{20, {3, 8, 8}, 5, 12};
  actors::run_inputs inputs;
};

} // namespace

training_result train_tiny_ranks(const run_setup& options, int ranks, const tiny_extras& extras, std::uint64_t seed) {
  auto data = transport::make_in_process_endpoints(ranks, seed);
  auto control = transport::make_in_process_control(ranks);
  const tiny_data shared(extras);
  std::vector<actors::run_control> own_wishes(static_cast<std::size_t>(ranks));
  auto& wishes = extras.wishes != nullptr ? *extras.wishes : own_wishes;
  training_result result;
  result.seen.control = &wishes.back();
  if (extras.at_step)
    result.seen.at_step = [&](std::int64_t step, actors::run_control&) { extras.at_step(step, wishes.front()); };
  result.seen.stop_at = extras.stop_at;
  result.seen.checkpoint_at = extras.checkpoint_at;
  result.seen.stop_in_evaluation = extras.stop_in_evaluation;
  std::vector<std::future<actors::run_summary>> runs;
  std::vector<recording_observer> others(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r)
    runs.push_back(std::async(std::launch::async, [&, r] {
      const auto i = static_cast<std::size_t>(r);
      const actors::job job{*control[i], *data[i], std::chrono::seconds(60)};
      auto inputs = shared.inputs;
      inputs.ranks = &job;
      inputs.changes = changes_of(extras, *inputs.net, {ranks, r});
      auto& observer = r == 0 ? result.seen : others[i];
      const auto plan = actors::settle_request(options, *inputs.net, {ranks, r});
      auto summary = actors::train(plan, options, inputs, observer, wishes[i]);
      control[i]->leave(std::chrono::seconds(10));
      return summary;
    }));
  std::exception_ptr failure;
  for (auto& run : runs) {
    try {
      auto summary = run.get();
      if (&run == &runs.front()) result.summary = std::move(summary);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  result.seen.control = nullptr;
  if (failure) std::rethrow_exception(failure);
  return result;
}

training_result train_tiny(const run_setup& options, const tiny_extras& extras) {
  const tiny_data data(extras);
  training_result result;
  actors::run_control control;
  result.seen.control = &control;
  result.seen.at_step = extras.at_step;
  result.seen.stop_at = extras.stop_at;
  result.seen.checkpoint_at = extras.checkpoint_at;
  result.seen.stop_in_evaluation = extras.stop_in_evaluation;
  const auto plan = actors::settle_request(options, *data.inputs.net);
  auto inputs = data.inputs;
  inputs.changes = changes_of(extras, *inputs.net, {});
  result.summary = actors::train(plan, options, inputs, result.seen, control);
  result.seen.control = nullptr;
  return result;
}

} // namespace penstock::testing
