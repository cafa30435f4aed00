// The tiny sequence model and its data.
#include "tests/support/tiny_sequences.hpp"

#include "actors/policy/epoch_minibatches.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/losses/cross_entropy.hpp"
#include "kernels/losses/token_cross_entropy.hpp"
#include "kernels/model_builder.hpp"

namespace penstock::testing {

namespace {

constexpr std::int64_t width = 3; // of a bucket

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9E3779B97F4A7C15U + b + 0x632BE59BD9B4E019U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// Each bucket's samples in the epoch's order, cut into minibatches of its own.
class tiny_minibatches final : public actors::minibatch_list {
public:
  tiny_minibatches(const tiny_sequences& data, const actors::batching& how) : data_(data), how_(how) {
    for (const auto& m : of_epoch(0))
      least_ = std::min(least_, static_cast<std::int64_t>(m.size()));
    per_epoch_ = static_cast<std::int64_t>(of_epoch(0).size());
  }
  std::int64_t per_epoch() const override { return per_epoch_; }
  std::int64_t least_samples() const override { return least_; }

  actors::minibatch_facts facts(std::int64_t minibatch) const override {
    const auto samples = samples_of(minibatch);
    actors::minibatch_facts facts{.epoch = minibatch / per_epoch_,
                                  .samples = static_cast<std::int64_t>(samples.size()),
                                  .counts = {static_cast<double>(samples.size()), 0}};
    for (const auto s : samples) {
      facts.extents[0] = std::max(facts.extents[0], (data_.length(s) + width - 1) / width * width);
      for (std::int64_t t = 0; t < data_.length(s); ++t)
        if (minibatch != data_.uncounted && data_.label(s, t) >= 0) ++facts.counts[1];
    }
    if (minibatch == data_.uncounted) facts.counts[0] = 0;
    return facts;
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    const auto samples = samples_of(minibatch);
    const auto time = into[0].dim(1);
    for (std::int64_t i = 0; i < into[0].dim(0); ++i) {
      const auto s = samples.at(static_cast<std::size_t>(first + i));
      const auto counts = minibatch != data_.uncounted;
      for (std::int64_t t = 0; t < time; ++t) {
        const bool inside = t < data_.length(s);
        into[0].data<std::int64_t>()[i * time + t] = inside ? data_.token(s, t) : 0;
        into[2].data<std::int64_t>()[i * time + t] = inside && counts ? data_.label(s, t) : -100;
      }
      into[1].data<std::int64_t>()[i] = data_.length(s);
      into[3].data<std::int64_t>()[i] = s % 2;
    }
  }

private:
  std::vector<std::vector<std::int64_t>> of_epoch(std::int64_t epoch) const {
    std::vector<std::vector<std::int64_t>> open(3), all;
    for (const auto s : actors::epoch_order(data_.size(), how_.seed, how_.training ? epoch : 0, how_.training)) {
      auto& bucket = open[static_cast<std::size_t>((data_.length(s) - 1) / width)];
      bucket.push_back(s);
      if (static_cast<std::int64_t>(bucket.size()) < how_.batch) continue;
      all.push_back(std::move(bucket));
      bucket = {};
    }
    for (auto& rest : open)
      if (!rest.empty()) all.push_back(std::move(rest));
    return all;
  }
  std::vector<std::int64_t> samples_of(std::int64_t minibatch) const {
    return of_epoch(minibatch / per_epoch_).at(static_cast<std::size_t>(minibatch % per_epoch_));
  }

  const tiny_sequences& data_;
  actors::batching how_;
  std::int64_t per_epoch_ = 0;
  std::int64_t least_ = 1 << 20;
};

} // namespace

std::int64_t tiny_sequences::token(std::int64_t sample, std::int64_t at) const {
  return static_cast<std::int64_t>(mixed(seed_ + static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(at)) %
                                   static_cast<std::uint64_t>(vocabulary));
}

std::int64_t tiny_sequences::label(std::int64_t sample, std::int64_t at) const {
  if (sample % 5 == 0 || (sample + at) % 3 == 0) return -100;
  return (token(sample, at) * 3 + 1) % vocabulary;
}

std::vector<actors::data_input> tiny_sequences::inputs() const {
  const tensor_spec of_tokens{dtype::i64, {6}};
  const tensor_spec of_sample{dtype::i64, {}};
  return {{.name = "ids", .spec = of_tokens, .extents = {"time"}, .below = vocabulary},
          {.name = "lengths", .spec = of_sample},
          {.name = "labels", .spec = of_tokens, .extents = {"time"}, .below = vocabulary},
          {.name = "parity", .spec = of_sample, .below = 2}};
}

actors::minibatches_ptr tiny_sequences::minibatches(const actors::batching& how) const {
  return std::make_shared<tiny_minibatches>(*this, how);
}

std::shared_ptr<const model> tiny_sequence_model(float dropout, bool tied) {
  using namespace layers;
  constexpr std::int64_t wide = 8;
  model_builder b("sequences");
  const auto time = b.extent("time", 6, 9);
  const auto ids = b.input("ids", dtype::i64, {time}, {.below = tiny_sequences::vocabulary});
  const auto lengths = b.input("lengths", dtype::i64, {}, {.length_of = time});
  const auto labels = b.input("labels", dtype::i64, {time}, {.below = tiny_sequences::vocabulary});
  const auto parity = b.input("parity", dtype::i64, {}, {.below = 2});
  const auto fc = [&](const std::string& name, value_id x, std::int64_t in, std::int64_t out) {
    return b.add(name, linear({.in_features = in, .out_features = out}), {x});
  };
  auto x = b.add("embed", embedding(tiny_sequences::vocabulary, wide), {ids});
  x = b.add("position", positions(9, wide), {x});
  const auto packed = fc("qkv", x, wide, 3 * wide);
  const auto attended = b.add("attend1", attention(2, {.dropout = dropout}), {packed, lengths});
  x = b.add("add", layers::add(), {attended, x});
  x = fc("fc1", x, wide, wide);
  x = b.add("act", gelu(), {x});
  const auto first = b.add("first", select_token(0), {x});
  b.loss("side", losses::cross_entropy(), {fc("parity_head", first, wide, 2), parity}, {.weight = 0.3F});
  const auto query = fc("query", x, wide, wide);
  x = b.add("attend2", attention(2, {.dropout = dropout}), {query, x, attended, lengths});
  x = b.add("drop", layers::dropout(dropout), {x});
  x = b.add("norm", layer_norm({.normalized = {wide}}), {x});
  const parameter_ties ties = tied ? parameter_ties{{"weight", "embed.weight"}} : parameter_ties{};
  const auto words = [&](const std::string& name, value_id from) {
    return b.add(name, linear({.in_features = wide, .out_features = tiny_sequences::vocabulary}), {from}, ties);
  };
  if (tied) {
    const auto again = b.add("look", embedding(tiny_sequences::vocabulary, wide), {ids}, ties);
    x = b.add("again", layers::add(), {x, again});
    b.loss("early", losses::token_cross_entropy(), {words("early_head", x), labels},
           {.weight = 0.5F, .counted_by = "tokens"});
  }
  b.loss("main", losses::token_cross_entropy(), {words("head", x), labels}, {.counted_by = "tokens"});
  return std::make_shared<const model>(b.build());
}

} // namespace penstock::testing
