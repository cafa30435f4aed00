// The same layers as in training, but for dropout.
#include "apps/models/gnmt_decoding.hpp"

#include "apps/models/gnmt.hpp"
#include "kernels/layers/layers.hpp"

namespace penstock::apps {

namespace {

model encoder_of(const gnmt_geometry& g) {
  model_builder b("gnmt-encoder");
  const auto time = b.extent("source_time", g.source_length);
  const auto source = b.input("source", dtype::i64, {time}, {.below = g.vocabulary});
  const auto lengths = b.input("source_lengths", dtype::i64, {}, {.length_of = time});
  const auto encoded = gnmt_encoder(b, g, source, lengths);
  b.result(encoded);
  b.result(b.add("decoder.att_rnn.attn.linear_k",
                 layers::linear({.in_features = g.hidden, .out_features = g.hidden, .bias = false}), {encoded}));
  return b.build();
}

model step_of(const gnmt_geometry& g) {
  model_builder b("gnmt-decoder");
  const auto time = b.extent("source_time", g.source_length);
  const auto target = b.input("target", dtype::i64, {1}, {.below = g.vocabulary});
  const auto lengths = b.input("source_lengths", dtype::i64, {}, {.length_of = time});
  const auto encoded = b.input("encoded", dtype::f32, {time, g.hidden});
  const auto keys = b.input("keys", dtype::f32, {time, g.hidden});
  gnmt_memory memory;
  for (auto* const of_kind : {&memory.h, &memory.c})
    for (std::int64_t i = 0; i < g.layers; ++i)
      of_kind->push_back(b.input((of_kind == &memory.h ? "h" : "c") + std::to_string(i), dtype::f32, {g.hidden}));
  const auto made = gnmt_decoder(b, g, target, encoded, lengths,
                                 {.memory = &memory, .keys = keys, .probabilities = true, .alone = true});
  b.result(made.logits);
  b.result(b.add("softmax", layers::softmax(), {made.logits}));
  b.result(made.probabilities);
  for (const auto& of_kind : {made.memory.h, made.memory.c})
    for (const auto id : of_kind)
      b.result(id);
  return b.build();
}

} // namespace

gnmt_parts gnmt_parts_of(gnmt_geometry geometry) {
  geometry.dropout = 0;
  return {std::make_shared<const model>(encoder_of(geometry)), std::make_shared<const model>(step_of(geometry))};
}

} // namespace penstock::apps
