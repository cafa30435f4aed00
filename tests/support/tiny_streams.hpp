// A small recurrent language model whose LSTMs go on where the minibatch before ended, and streams of tokens for it.
#pragma once

#include "actors/dataset.hpp"
#include "kernels/model.hpp"

namespace penstock::testing {

/// Tokens below `vocabulary`, cut into as many equal streams as there are batch columns. Time blocks have other lengths
/// in every epoch, the same ones in another order.
class tiny_stream : public actors::dataset {
public:
  explicit tiny_stream(std::int64_t tokens, std::uint64_t seed = 1) : tokens_(tokens), seed_(seed) {}
  std::int64_t size() const override { return tokens_; }
  std::string description() const override { return "a tiny stream"; }
  std::vector<actors::data_input> inputs() const override;
  std::vector<std::string> counts() const override { return {"samples", "tokens"}; }
  std::vector<std::string> extents() const override { return {"time"}; }
  std::int64_t columns(const actors::batching& how) const override { return how.batch * how.column_blocks; }
  actors::minibatches_ptr minibatches(const actors::batching& how) const override;

  static constexpr std::int64_t vocabulary = 11;
  std::int64_t token(std::int64_t at) const;

  std::vector<std::int64_t> lengths{4, 2, 5, 3}; ///< of time blocks, over and over
  bool rated = false;                            ///< a minibatch's rate is its length over 4

private:
  friend class tiny_stream_minibatches;
  std::int64_t tokens_;
  std::uint64_t seed_;
};

/// embed rnn1 drop rnn2 fc act head; a loss by tokens. Not `carried`: every minibatch begins with zeros.
std::shared_ptr<const model> tiny_language_model(float dropout = 0.2F, bool carried = true);

} // namespace penstock::testing
