// How good captions are: exactly right ones, and BLEU-4.
#pragma once

#include "apps/metrics/bleu.hpp"

namespace penstock::apps {

struct caption_score {
  double exact = 0; ///< percent of captions that are a reference of theirs, word by word, in lower case
  bleu_score bleu;  ///< of tokens at blanks, in lower case
};

/// One caption a clip; `references` as in corpus_bleu(). Throws usage_error when their counts differ.
caption_score score_captions(std::span<const std::string> captions,
                             std::span<const std::vector<std::string>> references);

} // namespace penstock::apps
