// Tables of plain text that fit a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

enum class cell_side : std::uint8_t { left, right };

struct table_layout {
  std::vector<cell_side> sides; ///< of each column
  std::string indent;           ///< before each line
  std::size_t columns = 0;      ///< the longest line there may be; 0: as long as it comes
};

/// Columns as wide as their widest cell, two spaces between; the first row is the titles, and no row has more cells.
/// Where that is too wide, titles and then the cells of left columns are broken into several lines (behind spaces,
/// commas, slashes, underscores and dots); where it still is, columns that have no room follow in further tables below,
/// each beginning with the first column. Nothing is left out. A character is taken to be one column wide.
std::string lay_out_table(std::vector<std::vector<std::string>> rows, const table_layout& layout);

/// "1 stage", "2 stages", "2 minibatches".
std::string counted(std::int64_t count, const std::string& noun);

/// Lines broken at blanks where they are longer than `columns` (0: not at all), what follows set in by two; each ends.
std::string fold_lines(const std::string& lines, std::size_t columns);

/// How wide a line of standard output may be: the terminal's columns, 0 where it is none.
std::size_t output_columns();

} // namespace penstock
