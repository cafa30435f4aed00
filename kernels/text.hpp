// Small helpers for messages to people.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// The candidate with the least edit distance (two neighbours swapped count half, capitals not), or "" when none
/// is near: more than a third of the word would change, leading dashes left out. Else the only one that begins with it.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// " (did you mean 'x'?)", or "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

std::string join(std::span<const std::string> words, std::string_view separator);

} // namespace penstock
