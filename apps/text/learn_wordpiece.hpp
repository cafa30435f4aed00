// A WordPiece vocabulary as Hugging Face's WordPieceTrainer learns it.
#pragma once

#include "apps/text/word_counts.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::apps {

/// `special` first, then the most frequent characters (1000 at most) in their order, then those within words ("##x") as
/// they are met, then merges of the most frequent pair (of equal ones that of the lower ids) until there are `most`
/// tokens or no pair is as frequent as `least_frequency`.
std::vector<std::string> learn_wordpiece(const word_counts& words, const std::vector<std::string>& special,
                                         std::int64_t most, std::int64_t least_frequency);

} // namespace penstock::apps
