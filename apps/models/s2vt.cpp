// Sizes, names and initial values are those of the published s2vt.prototxt; names of the LSTMs' parameters are those of
// Caffe's formulas (W_xc, W_hc, b_c), since its gates have another order than PyTorch's.
#include "apps/models/s2vt.hpp"

#include "apps/models/own_options.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/losses/token_cross_entropy.hpp"

#include <cmath>

namespace penstock::apps {

namespace {

constexpr std::int64_t most_features = 1 << 24;
constexpr std::int64_t no_label = -1;
constexpr float loss_weight = 20;
constexpr float bias_rate = 2; // of both linear layers
constexpr initializer drawn{initializer_kind::uniform, 0.08F};
constexpr initializer zero{initializer_kind::constant, 0};

// Caffe's "xavier" of its own accord looks at what comes in alone.
initializer caffe_xavier(std::int64_t fan_in) {
  return {initializer_kind::uniform, std::sqrt(3.0F / static_cast<float>(fan_in))};
}

layer_ptr lstm_of(std::int64_t hidden, bool steps) {
  return layers::lstm(hidden, {.names = {.weight_ih = "weight_xc", .weight_hh = "weight_hc", .bias_ih = "bias_c"},
                               .biases = 1,
                               .gates = gate_order::ifog,
                               .state = steps,
                               .continues = !steps,
                               .weight_init = drawn,
                               .bias_ih_init = zero});
}

model build_s2vt(const model_options& options) {
  const auto g = s2vt_geometry_of(options);
  model_builder b("s2vt");
  const auto time = b.extent("time", g.steps);
  s2vt_values read;
  read.frames = b.input("frames", dtype::f32, {time, g.frame_size});
  read.words = b.input("words", dtype::i64, {time}, {.below = g.vocabulary});
  read.stage = b.input("stage", dtype::f32, {time, 1});
  read.continues = b.input("continues", dtype::f32, {time});
  const auto labels = b.input("labels", dtype::i64, {time}, {.below = g.vocabulary});
  const auto written = add_s2vt(b, g, read);
  b.loss("loss", losses::token_cross_entropy({.ignored = no_label}), {written.logits, labels},
         {.weight = loss_weight, .counted_by = "tokens"});
  return b.build();
}

} // namespace

s2vt_geometry s2vt_geometry_of(const model_options& options) {
  check_width_and_dropout("s2vt", options);
  s2vt_geometry g;
  g.frame_size = own_whole(options, "frame-size", g.frame_size, 1, most_features);
  for (auto* size : {&g.frame_width, &g.word_width, &g.hidden})
    *size = scaled(*size, options.width);
  if (options.vocabulary > 0) g.vocabulary = options.vocabulary;
  if (options.length > 0) g.steps = options.length;
  return g;
}

s2vt_written add_s2vt(model_builder& b, const s2vt_geometry& g, const s2vt_values& read, const s2vt_memory* memory) {
  s2vt_written made;
  const auto recur = [&](const std::string& name, value_id x, value_id h, value_id c) {
    const auto op = lstm_of(g.hidden, memory != nullptr);
    if (memory != nullptr) return b.add_multi(name, op, {x, h, c});
    return std::vector{b.add(name, op, {x, read.continues})};
  };
  const s2vt_memory before = memory != nullptr ? *memory : s2vt_memory{};
  b.freeze_unit();
  const auto frames = b.add("fc_frame",
                            layers::linear({.in_features = g.frame_size,
                                            .out_features = g.frame_width,
                                            .weight_init = caffe_xavier(g.frame_size),
                                            .bias_init = initializer{initializer_kind::constant, 0.2F},
                                            .bias_rate = bias_rate}),
                            {read.frames});
  b.freeze_unit();
  const auto first = recur("lstm1", frames, before.h1, before.c1);
  b.freeze_unit();
  const auto words = b.add("embed", layers::embedding(g.vocabulary, g.word_width, {.init = drawn}), {read.words});
  b.freeze_unit();
  const auto both = b.add("concat", layers::concat_features(), {first.front(), words, read.stage});
  const auto second = recur("lstm2", both, before.h2, before.c2);
  b.keep_together({"concat", "lstm2"}); // more would cross between them than before
  b.freeze_unit();
  made.logits = b.add("predict",
                      layers::linear({.in_features = g.hidden,
                                      .out_features = g.vocabulary,
                                      .weight_init = drawn,
                                      .bias_init = zero,
                                      .bias_rate = bias_rate}),
                      {second.front()});
  if (memory != nullptr) made.memory = {first.at(1), first.at(2), second.at(1), second.at(2)};
  return made;
}

model s2vt_step(const s2vt_geometry& g) {
  model_builder b("s2vt-step");
  const s2vt_values read{.frames = b.input("frames", dtype::f32, {1, g.frame_size}),
                         .words = b.input("words", dtype::i64, {1}, {.below = g.vocabulary}),
                         .stage = b.input("stage", dtype::f32, {1, 1})};
  s2vt_memory memory;
  for (const auto& [name, value] : {std::pair("h1", &memory.h1), std::pair("c1", &memory.c1),
                                    std::pair("h2", &memory.h2), std::pair("c2", &memory.c2)})
    *value = b.input(name, dtype::f32, {g.hidden});
  const auto made = add_s2vt(b, g, read, &memory);
  for (const auto id : {made.logits, made.memory.h1, made.memory.c1, made.memory.h2, made.memory.c2})
    b.result(id);
  return b.build();
}

model_entry s2vt_entry() {
  model_entry entry{
      .name = "s2vt", .summary = "S2VT: two LSTMs read a clip's frames, then write its caption", .build = build_s2vt};
  entry.takes_images = false;
  entry.options = {{"frame-size", "N", "Features of a frame [as many as the data has, else 4096]"}};
  entry.training.rate = 0.01F;
  entry.training.clip_norm = 10;
  entry.training.schedule = "step:every=20000,gamma=0.5";
  return entry;
}

} // namespace penstock::apps
