// Questions with the pieces of their contexts that fit a model, as BERT's SQuAD recipe cuts them.
#pragma once

#include "apps/data/squad_file.hpp"
#include "apps/data/token_rows.hpp"
#include "apps/text/tokenizer.hpp"

namespace penstock::apps {

struct window_options {
  std::int64_t most_tokens = 384;    ///< of a window, question and special tokens included
  std::int64_t stride = 128;         ///< tokens from one window's begin to the next's
  std::int64_t question_tokens = 64; ///< longer questions are cut
};

/// A window is [begin] question [end] piece of the context [end]; a context that does not fit has several, each
/// `stride` tokens further. The context's words, between white space, are tokenized one by one, so that each token
/// knows its word.
class squad_windows {
public:
  /// Throws usage_error where question and special tokens leave no room for a context.
  squad_windows(const squad_file& file, const tokenizer& tokens, const window_options& options);

  struct window {
    std::size_t question = 0;
    std::int64_t context_first = 0; ///< token of the window where the piece begins
    std::int64_t first_token = 0;   ///< of the context's tokens
    std::int64_t context_tokens = 0;
    std::int64_t start =
        0; ///< the first answer's tokens in the window, both included; 0 and 0, where [begin] is, when it
    std::int64_t end = 0; ///< does not lie in it as a whole
  };
  const std::vector<window>& windows() const { return windows_; }
  const token_rows& rows() const { return rows_; }
  std::int64_t cut_questions() const { return cut_questions_; }

  /// What the context says from token `start` to `end` of window `number`, whole words; "" where one of them is no
  /// token of its piece.
  std::string answer(std::size_t number, std::int64_t start, std::int64_t end) const;

private:
  struct word_place {
    std::size_t first = 0;
    std::size_t end = 0; ///< bytes of the context
  };
  struct tokenized_context {
    token_ids ids;
    std::vector<std::int32_t> word_of; ///< of each token
    std::vector<word_place> words;
  };

  tokenized_context tokenize(const std::string& context, const tokenizer& tokens) const;
  void add_question(std::size_t number, const tokenizer& tokens, const window_options& options);

  const squad_file& file_;
  std::vector<tokenized_context> contexts_;
  std::vector<window> windows_;
  token_rows rows_;
  std::int64_t cut_questions_ = 0;
};

} // namespace penstock::apps
