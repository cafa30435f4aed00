// How errors about a file name what was found there: on one line, and short, whatever the file holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::planner {

/// The text without control characters (as \xNN) and cut after 60 bytes.
std::string shown(std::string_view text);
/// As shown(), in single quotes.
std::string quoted(std::string_view text);
/// The shortest text that reads back as this number: "16000000000", "1e+30", "nan".
std::string number_text(double value);
/// " (did you mean 'x'?)" for the known word nearest to this one, or "" where none is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);
/// Sixteen hexadecimal digits that tell texts apart by accident's measure, not against malice: 64-bit FNV-1a.
std::string fingerprint(std::string_view text);
/// What fixes a model's shapes, as it is said now: without the word "vocabulary=0", which older files have where the
/// vocabulary was the model's own.
std::string options_as_said_now(std::string model_options);
/// True for whole characters of UTF-8 and nothing else.
bool is_utf8(std::string_view text);
/// True for UTF-8 without control characters: what a name in a file of ours may be made of.
bool is_plain_text(std::string_view text);

} // namespace penstock::planner
