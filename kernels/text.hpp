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

/// Text of others as a terminal may see it: what is no printable UTF-8 is written out, line ends and controls as in
/// JSON (`\n`, `\u001b`; so JSON stays the same JSON), stray bytes as `\xff`. So too are marks that reverse what
/// follows them.
std::string printable(std::string_view text);

/// As printable(), of several lines: their ends and tabs stay.
std::string printable_lines(std::string_view text);

/// As printable(), of at most `most` bytes (at least 8): the middle gives way to "...".
std::string shortened(std::string_view text, std::size_t most = 80);

/// As shortened(), in single quotes: for a piece of somebody's file, option or variable within a message.
std::string in_quotes(std::string_view text);

/// A whole message as it leaves the program: one printable line that a person can read, of at most 500 bytes.
std::string one_line(std::string_view text);

} // namespace penstock
