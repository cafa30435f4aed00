// Compares captions with their references.
#include "apps/metrics/captions.hpp"

#include <algorithm>

namespace penstock::apps {

caption_score score_captions(std::span<const std::string> captions,
                             std::span<const std::vector<std::string>> references) {
  constexpr bleu_options options{.tokenizer = bleu_tokenizer::none, .is_lower_case = true};
  caption_score score;
  score.bleu = corpus_bleu(captions, references, options);
  const auto words = [](const std::string& line) { return bleu_tokens(line, bleu_tokenizer::none, true); };
  std::size_t right = 0;
  for (std::size_t clip = 0; clip < captions.size(); ++clip)
    right += std::any_of(references.begin(), references.end(), [&](const std::vector<std::string>& lines) {
      return words(lines[clip]) == words(captions[clip]);
    });
  score.exact = 100.0 * static_cast<double>(right) / static_cast<double>(captions.size());
  return score;
}

} // namespace penstock::apps
