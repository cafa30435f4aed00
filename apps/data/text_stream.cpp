// Reads text into one vector of tokens and cuts it into columns and pieces.
#include "apps/data/text_stream.hpp"

#include "apps/data/stream_pieces.hpp"
#include "apps/data/two_parts.hpp"
#include "apps/text/lines.hpp"
#include "apps/text/white_space.hpp"
#include "apps/text/words.hpp"
#include "kernels/check.hpp"

namespace penstock::apps {

namespace {

constexpr std::int64_t counts_for_nothing = -100;

two_parts files_of(const std::string& where) {
  return two_parts_of(where, "train.txt", {"valid.txt", "test.txt"});
}

std::vector<std::string> words_of(const std::string& file, std::int64_t most) {
  word_counts words;
  line_reader lines(file);
  while (const auto line = lines.next())
    split_white_space(*line, [&](std::string_view word) { words.add(word); });
  if (words.as_seen().empty()) throw error(file + ": found no words, wanted text");
  return most_frequent(words, most);
}

/// What a tokenizer makes of a file.
struct token_stream {
  std::string file;
  std::int64_t vocabulary = 0;
  std::int64_t unknown = 0;         // of the tokens
  std::vector<std::int32_t> tokens; // a vocabulary has fewer than 2^31
};

token_stream read_stream(const std::string& file, const tokenizer& how) {
  token_stream stream{.file = file, .vocabulary = how.vocabulary_size()};
  const auto end = how.special().end;
  if (!end)
    throw usage_error("--tokenizer: " + how.description() + ", has no end token, wanted one that stands behind lines");
  line_reader lines(file);
  while (const auto line = lines.next()) {
    for (const auto id : how.encode(*line)) {
      stream.tokens.push_back(static_cast<std::int32_t>(id));
      if (id == how.special().unknown) ++stream.unknown;
    }
    stream.tokens.push_back(static_cast<std::int32_t>(*end));
  }
  if (stream.tokens.size() < 2)
    throw error(file + ": found " + (stream.tokens.empty() ? "no text" : "one token") + ", wanted at least two tokens");
  return stream;
}

class stream_minibatches final : public actors::minibatch_list {
public:
  stream_minibatches(const token_stream& stream, std::int64_t length, const actors::batching& how)
      : stream_(stream), length_(length), how_(how),
        layout_(column_layout::of(static_cast<std::int64_t>(stream.tokens.size()), how.batch * how.column_blocks,
                                  how.training)),
        pieces_(layout_.steps, length, how.seed, how.training) {}

  std::int64_t per_epoch() const override { return pieces_.count() * how_.column_blocks; }
  std::int64_t least_samples() const override { return how_.batch; }

  actors::minibatch_facts facts(std::int64_t minibatch) const override {
    const auto at = place_of(minibatch);
    std::int64_t tokens = 0;
    for (std::int64_t c = 0; c < how_.batch; ++c)
      tokens += layout_.counted(at.column + c, at.piece.first, at.piece.steps);
    return {.epoch = minibatch / per_epoch(),
            .samples = how_.batch,
            .counts = {static_cast<double>(how_.batch), static_cast<double>(tokens)},
            .extents = {at.piece.steps},
            .column = at.column};
  }

  double rate(std::int64_t minibatch) const override {
    return how_.training ? static_cast<double>(place_of(minibatch).piece.steps) / static_cast<double>(length_) : 1;
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    const auto [column, piece] = place_of(minibatch);
    const auto samples = into[0].dim(0);
    auto* input = into[0].data<std::int64_t>();
    auto* labels = into[1].data<std::int64_t>();
    for (std::int64_t s = 0; s < samples; ++s) {
      const auto mine = column + first + s;
      const auto counted = layout_.counted(mine, piece.first, piece.steps);
      for (std::int64_t t = 0; t < piece.steps; ++t) {
        const auto token = static_cast<std::size_t>(layout_.begin(mine, piece.first + t));
        *input++ = t < counted ? stream_.tokens[token] : 0;
        *labels++ = t < counted ? stream_.tokens[token + 1] : counts_for_nothing;
      }
    }
  }

private:
  struct place {
    std::int64_t column = 0; // of the first sample
    stream_piece piece;
  };
  place place_of(std::int64_t minibatch) const {
    const auto of_epoch = minibatch % per_epoch();
    return {of_epoch % how_.column_blocks * how_.batch,
            pieces_.at(minibatch / per_epoch(), of_epoch / how_.column_blocks)};
  }

  const token_stream& stream_;
  std::int64_t length_;
  actors::batching how_;
  column_layout layout_;
  stream_pieces pieces_;
};

class text_stream final : public actors::dataset {
public:
  text_stream(token_stream stream, std::int64_t length) : stream_(std::move(stream)), length_(length) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(stream_.tokens.size()); }
  std::vector<actors::data_input> inputs() const override {
    const tensor_spec row{dtype::i64, shape{length_}};
    return {{.name = "input", .spec = row, .extents = {"time"}, .below = stream_.vocabulary},
            {.name = "labels", .spec = row, .extents = {"time"}, .below = stream_.vocabulary}};
  }
  std::vector<std::string> counts() const override { return {"samples", "tokens"}; }
  std::vector<std::string> extents() const override { return {"time"}; }

  std::int64_t columns(const actors::batching& how) const override { return how.batch * how.column_blocks; }

  actors::minibatches_ptr minibatches(const actors::batching& how) const override {
    const auto most = how.training ? size() / 2 : size() - 1;
    if (how.batch > most / how.column_blocks)
      throw usage_error(stream_.file + ": found " + std::to_string(size()) + " tokens for " +
                        (how.column_blocks > 1 ? std::to_string(how.column_blocks) + " times " : "") +
                        std::to_string(how.batch) + " columns (--batch), wanted at most " + std::to_string(most) +
                        " columns");
    return std::make_shared<stream_minibatches>(stream_, length_, how);
  }

  std::string description() const override {
    return "text: " + std::to_string(size()) + " tokens from " + stream_.file + ", " + std::to_string(stream_.unknown) +
           " of them unknown to a vocabulary of " + std::to_string(stream_.vocabulary);
  }

private:
  token_stream stream_;
  std::int64_t length_;
};

} // namespace

text_stream_pair open_text_stream(const std::string& where, const text_stream_options& options) {
  const auto files = files_of(where);
  auto tokens = options.tokens;
  if (tokens == nullptr) tokens = make_words(words_of(files.train, options.most_words));
  text_stream_pair pair;
  pair.train = std::make_unique<text_stream>(read_stream(files.train, *tokens), options.length);
  if (!files.test.empty()) pair.test = std::make_unique<text_stream>(read_stream(files.test, *tokens), options.length);
  return pair;
}

std::int64_t words_in(const std::string& where, std::int64_t most) {
  return static_cast<std::int64_t>(words_of(files_of(where).train, most).size());
}

} // namespace penstock::apps
