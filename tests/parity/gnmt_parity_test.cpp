// A narrow GNMT, untied and tied, against a module of PyTorch's in float64: lengths of their own in each minibatch, two
// micro-batches of uneven sizes and token counts, gradients by name, losses, ten Adam steps.
#include "apps/models/registry.hpp"
#include "tests/parity/sequence_parity.hpp"

namespace penstock {
namespace {

using namespace parity;

// As in make_gnmt_fixtures.py.
constexpr std::int64_t steps = 10, batch = 5, vocabulary = 23, most_source = 7, most_target = 7;

std::int64_t source_time(std::int64_t step) {
  return 4 + step % 4;
}
std::int64_t target_time(std::int64_t step) {
  return 3 + 2 * step % 5;
}

columns draw_data() {
  constexpr std::int64_t n = steps * batch;
  std::vector<std::int64_t> sources, targets;
  for (std::int64_t i = 0; i < n; ++i) {
    sources.push_back(source_time(i / batch));
    targets.push_back(target_time(i / batch) + 1);
  }
  columns data{{"source_lengths", whole("source_lengths", n, sources, 1)},
               {"source", whole("source", n * most_source, {vocabulary - 1}, 1)},
               {"target_in", whole("target_in", n * most_target, {vocabulary - 1}, 1)},
               {"labels", whole("labels", n * most_target, {vocabulary - 1}, 1)}};
  const auto counted = whole("target_lengths", n, targets);
  pad(data["source"], data["source_lengths"], most_source, 0);
  pad(data["target_in"], counted, most_target, 0);
  pad(data["labels"], counted, most_target, 0);
  return data;
}

struct gnmt_case {
  const char* name;
  const char* fixture;
  std::map<std::string, std::string> own;
  bool reference;
};

class GnmtParity : public testing::TestWithParam<gnmt_case> {};

TEST_P(GnmtParity, GradientsLossesAndTenStepsArePyTorchs) {
  apps::model_options options{.width = 1.0 / 64, .dropout = 0, .vocabulary = vocabulary, .own = GetParam().own};
  options.own["layers"] = "3";
  const auto network = std::make_shared<const model>(apps::find_model("gnmt_large").build(options).smoothed(0.1F));
  recipe how{.steps = steps, .batch = batch, .optimizer = {.name = "adam"}};
  how.facts = [](std::int64_t step) {
    return microbatch_info{.counts = {batch}, .extents = {source_time(step), target_time(step)}};
  };
  const std::string folder = PENSTOCK_PARITY_FIXTURES "/";
  sequence_parity(network, draw_data(), folder + GetParam().fixture + ".safetensors", how).train(GetParam().reference);
}

// At rate 0 dropout's places change nothing.
INSTANTIATE_TEST_SUITE_P(
    Forms, GnmtParity,
    testing::Values(
        gnmt_case{"Untied", "gnmt", {}, false}, gnmt_case{"UntiedReference", "gnmt", {}, true},
        gnmt_case{"UntiedWithMlperfsPlaces", "gnmt", {{"dropout-places", "mlperf"}}, false},
        gnmt_case{"Tied", "gnmt_tied", {{"tied", "yes"}}, false},
        gnmt_case{"TiedReference", "gnmt_tied", {{"tied", "yes"}}, true},
        gnmt_case{"TiedWithPipeDreamsPlaces", "gnmt_tied", {{"tied", "yes"}, {"dropout-places", "pipedream"}}, false}),
    [](const auto& test) { return std::string(test.param.name); });

} // namespace
} // namespace penstock
