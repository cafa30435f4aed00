// Running text as one stream of tokens, for language models that keep their state from one piece to the next.
#pragma once

#include "actors/dataset.hpp"
#include "apps/text/tokenizer.hpp"

#include <memory>

namespace penstock::apps {

inline constexpr std::int64_t usual_words = 10'000; ///< as many as the Penn Treebank's language models know

struct text_stream_options {
  std::shared_ptr<const tokenizer> tokens; ///< null: the words of the training text
  std::int64_t most_words = usual_words;   ///< of those, <unk> and <eos> included
  std::int64_t length = 70;                ///< of a piece, about
};

struct text_stream_pair {
  std::unique_ptr<actors::dataset> train;
  std::unique_ptr<actors::dataset> test; ///< null where there is none
};

/// `where` is a folder with train.txt and perhaps valid.txt or test.txt (the first of them), or a file, or two with a
/// comma between. Each line is tokenized, and the tokenizer's end token stands behind it; all lines are one stream.
/// Inputs: input and labels i64 (time), the labels one token ahead; counts: samples, tokens; extent: time.
///
/// The stream is cut into B columns, as many as a minibatch has samples, or so many in each of batching::column_blocks.
/// In training they are AWD-LSTM's: column c is tokens [c L, (c + 1) L) with L = N / B rounded down, and its L - 1
/// predictions come in pieces, one after the other, so that a layer may go on where it was. A piece has, as there,
/// max(5, N(length, 5)) steps, `length` halved for one in twenty, and its rate is its steps over `length`. An epoch's
/// pieces follow from (seed, epoch): every epoch has those that the seed draws, in an order of its own, so that epochs
/// are equally long. The last one drawn has what is left of the column, or lengthens the one before where that is less
/// than 5.
///
/// In evaluation every piece but the last has `length` steps, and all N - 1 predictions of the stream count, each once:
/// L = (N - 1) / B rounded up, column c has the predictions from [c L, (c + 1) L), and what is beyond the last is
/// padding with labels of -100.
///
/// Throws error that names the file and the line for text that is none, an empty file, fewer than 2 tokens; usage_error
/// for a tokenizer without an end token. The data sets refuse more columns than they have pairs of tokens.
text_stream_pair open_text_stream(const std::string& where, const text_stream_options& options);

/// Words of the training text, <unk> and <eos> included, `most` at most.
std::int64_t words_in(const std::string& where, std::int64_t most = usual_words);

} // namespace penstock::apps
