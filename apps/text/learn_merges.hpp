// What `subword-nmt learn-bpe` learns.
#pragma once

#include "apps/text/word_counts.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace penstock::apps {

/// At most `most` merges, each of the pair that is then most frequent (of equal ones the one whose symbols come last in
/// the order of their characters), until none is as frequent as `least_frequency`. The pruned table that subword-nmt
/// looks in is followed to the letter, since it can miss a pair that became frequent again. Throws error where no word
/// has two characters.
std::vector<std::pair<std::string, std::string>> learn_merges(const word_counts& words, std::int64_t most,
                                                              std::int64_t least_frequency);

} // namespace penstock::apps
