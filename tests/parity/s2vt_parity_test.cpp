// A narrow S2VT against a module of PyTorch's in float64: unrollings of their own length in each minibatch, two
// micro-batches of uneven sizes and word counts, gradients by name, losses, ten steps of SGD with its factors of the
// rate.
#include "apps/models/registry.hpp"
#include "tests/parity/sequence_parity.hpp"

namespace penstock {
namespace {

using namespace parity;

// As in make_s2vt_fixtures.py.
constexpr std::int64_t steps = 10, batch = 5, vocabulary = 23, most_time = 9, frame_size = 6;

std::int64_t time_of(std::int64_t step) {
  return 6 + step % 4;
}

std::vector<float> numbers(const char* name, std::int64_t count) {
  std::vector<float> out;
  for (const auto n : whole(name, count, {1 << 16}))
    out.push_back(static_cast<float>(n) / (1 << 15) - 1);
  return out;
}

struct clips {
  columns whole_numbers;
  number_columns real_numbers;
};

clips draw_clips() {
  constexpr std::int64_t n = steps * batch;
  std::vector<std::int64_t> room, left;
  for (std::int64_t i = 0; i < n; ++i)
    room.push_back(time_of(i / batch) - 1);
  const auto frames = whole("clip_frames", n, room, 1);
  for (std::int64_t i = 0; i < n; ++i)
    left.push_back(time_of(i / batch) - frames[static_cast<std::size_t>(i)] + 1);
  const auto written = whole("clip_words", n, left);
  clips c{{{"words", whole("words", n * most_time, {vocabulary})},
           {"labels", whole("labels", n * most_time, {vocabulary})}},
          {{"frames", numbers("frames", n * most_time * frame_size)}}};
  for (std::int64_t i = 0; i < n * most_time; ++i) {
    const auto clip = static_cast<std::size_t>(i / most_time), at = static_cast<std::size_t>(i);
    const auto end = frames[clip] + written[clip], t = i % most_time;
    const bool writes = t >= frames[clip] && t < end;
    if (!writes) c.whole_numbers["words"][at] = 0, c.whole_numbers["labels"][at] = -1;
    c.real_numbers["stage"].push_back(writes ? 1.0F : 0.0F);
    c.real_numbers["continues"].push_back(t > 0 && t < end ? 1.0F : 0.0F);
    if (t >= frames[clip]) std::fill_n(c.real_numbers["frames"].begin() + i * frame_size, frame_size, 0.0F);
  }
  return c;
}

class S2vtParity : public testing::TestWithParam<bool> {};

TEST_P(S2vtParity, GradientsLossesAndTenStepsArePyTorchs) {
  const auto drawn = draw_clips();
  const apps::model_options options{
      .width = 0.012, .vocabulary = vocabulary, .own = {{"frame-size", std::to_string(frame_size)}}};
  const auto network = std::make_shared<const model>(apps::find_model("s2vt").build(options));
  recipe how{.steps = steps, .batch = batch, .optimizer = {.name = "sgd", .momentum = 0.9F}, .rate = 0.01F};
  how.loss_tolerance = 1e-4; // of about 60
  how.facts = [&labels = drawn.whole_numbers.at("labels")](std::int64_t step) {
    const auto begin = labels.begin() + step * batch * most_time;
    const auto counted = std::count_if(begin, begin + batch * most_time, [](auto label) { return label >= 0; });
    return microbatch_info{.counts = {batch, static_cast<double>(counted)}, .extents = {time_of(step)}};
  };
  sequence_parity(network, drawn.whole_numbers, PENSTOCK_PARITY_FIXTURES "/s2vt.safetensors", how, drawn.real_numbers)
      .train(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Kernels, S2vtParity, testing::Bool(),
                         [](const auto& test) { return std::string(test.param ? "Reference" : "Library"); });

} // namespace
} // namespace penstock
