// The tiny language model and its streams.
#include "tests/support/tiny_streams.hpp"

#include "kernels/layers/layers.hpp"
#include "kernels/losses/token_cross_entropy.hpp"
#include "kernels/model_builder.hpp"

namespace penstock::testing {

class tiny_stream_minibatches final : public actors::minibatch_list {
public:
  tiny_stream_minibatches(const tiny_stream& data, const actors::batching& how)
      : data_(data), how_(how), each_(data.tokens_ / data.columns(how)) {
    for (std::int64_t left = each_ - 1; left > 0; left -= lengths_.back()) // the last token is only a label
      lengths_.push_back(std::min(left, data.lengths[lengths_.size() % data.lengths.size()]));
  }
  std::int64_t per_epoch() const override { return static_cast<std::int64_t>(lengths_.size()) * how_.column_blocks; }
  std::int64_t least_samples() const override { return how_.batch; }

  actors::minibatch_facts facts(std::int64_t minibatch) const override {
    const auto length = at(minibatch).second;
    actors::minibatch_facts facts{.epoch = minibatch / per_epoch(),
                                  .samples = how_.batch,
                                  .counts = {static_cast<double>(how_.batch), static_cast<double>(how_.batch * length)},
                                  .column = minibatch % how_.column_blocks * how_.batch};
    facts.extents[0] = length;
    return facts;
  }

  double rate(std::int64_t minibatch) const override {
    return data_.rated ? static_cast<double>(at(minibatch).second) / 4 : 1;
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    const auto [begin, length] = at(minibatch);
    for (std::int64_t i = 0; i < into[0].dim(0); ++i) {
      const auto column = facts(minibatch).column + first + i;
      for (std::int64_t t = 0; t < length; ++t) {
        const auto token = column * each_ + begin + t;
        into[0].data<std::int64_t>()[i * length + t] = data_.token(token);
        into[1].data<std::int64_t>()[i * length + t] = data_.token(token + 1);
      }
    }
  }

private:
  // Where its time block begins in a column, and how long it is.
  std::pair<std::int64_t, std::int64_t> at(std::int64_t minibatch) const {
    const auto blocks = static_cast<std::int64_t>(lengths_.size());
    const auto turn = how_.training ? minibatch / per_epoch() : 0;
    const auto block = minibatch % per_epoch() / how_.column_blocks;
    std::int64_t begin = 0;
    for (std::int64_t b = 0; b < block; ++b)
      begin += lengths_[static_cast<std::size_t>((b + turn) % blocks)];
    return {begin, lengths_[static_cast<std::size_t>((block + turn) % blocks)]};
  }

  const tiny_stream& data_;
  actors::batching how_;
  std::int64_t each_; // tokens of a column
  std::vector<std::int64_t> lengths_;
};

std::int64_t tiny_stream::token(std::int64_t at) const {
  std::uint64_t z = seed_ * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(at) + 0x632BE59BD9B4E019U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  return static_cast<std::int64_t>((z ^ (z >> 29)) % static_cast<std::uint64_t>(vocabulary));
}

std::vector<actors::data_input> tiny_stream::inputs() const {
  const tensor_spec of_tokens{dtype::i64, {4}};
  return {{.name = "ids", .spec = of_tokens, .extents = {"time"}, .below = vocabulary},
          {.name = "labels", .spec = of_tokens, .extents = {"time"}, .below = vocabulary}};
}

actors::minibatches_ptr tiny_stream::minibatches(const actors::batching& how) const {
  return std::make_shared<tiny_stream_minibatches>(*this, how);
}

std::shared_ptr<const model> tiny_language_model(float dropout, bool carried) {
  using namespace layers;
  constexpr std::int64_t vocabulary = tiny_stream::vocabulary;
  model_builder b("language");
  const auto time = b.extent("time", 4, 100);
  const auto ids = b.input("ids", dtype::i64, {time}, {.below = vocabulary});
  const auto labels = b.input("labels", dtype::i64, {time}, {.below = vocabulary});
  auto x = b.add("embed", embedding(vocabulary, 6), {ids});
  x = b.add("rnn1", lstm(8, {.carried = carried, .weight_drop = dropout}), {x});
  x = b.add("drop", locked_dropout(dropout), {x});
  x = b.add("rnn2", lstm(7, {.carried = carried}), {x});
  x = b.add("fc", linear({.in_features = 7, .out_features = 6}), {x});
  x = b.add("act", layers::tanh(), {x});
  x = b.add("head", linear({.in_features = 6, .out_features = vocabulary}), {x});
  b.loss("main", losses::token_cross_entropy(), {x, labels}, {.counted_by = "tokens"});
  return std::make_shared<const model>(b.build());
}

} // namespace penstock::testing
