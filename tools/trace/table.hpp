// Columns of plain text.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace penstock::actors {

using table_row = std::vector<std::string>;

enum class last_column : std::uint8_t { right, left };

/// Columns as wide as their widest cell; the first `left` ones, and the last one if told, are set to the left.
std::string table(const std::vector<table_row>& rows, std::size_t left, last_column last = last_column::right);

/// As printf; at most 63 characters.
template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

/// Sentences, each a line: on a terminal that is narrower broken between words, what follows set in by two.
std::string prose(const std::string& lines);

/// "12.3%".
std::string percent(double share);

} // namespace penstock::actors
