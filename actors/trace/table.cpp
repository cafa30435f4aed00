// Which column is set to which side.
#include "actors/trace/table.hpp"

#include "kernels/text_table.hpp"

#include <algorithm>

namespace penstock::actors {

std::string percent(double share) {
  return format("%.1f%%", 100 * share);
}

std::string prose(const std::string& lines) {
  const auto columns = output_columns();
  if (columns == 0) return lines;
  constexpr std::size_t indent = 2;
  std::string text;
  for (std::size_t from = 0; from < lines.size();) {
    const auto end = std::min(lines.find('\n', from), lines.size());
    std::size_t used = 0;
    while (end - from > columns - used) {
      auto cut = lines.rfind(' ', from + columns - used);
      if (cut == std::string::npos || cut <= from) cut = from + columns - used;
      text.append(used, ' ').append(lines, from, cut - from).append("\n");
      from = lines[cut] == ' ' ? cut + 1 : cut;
      used = std::min(indent, columns - 1);
    }
    text.append(used, ' ').append(lines, from, end - from).append("\n");
    from = end + 1;
  }
  return text;
}

std::string table(const std::vector<table_row>& rows, std::size_t left, last_column last) {
  std::size_t columns = 0;
  for (const auto& cells : rows)
    columns = std::max(columns, cells.size());
  table_layout layout{std::vector<cell_side>(columns, cell_side::right), "", output_columns()};
  std::fill_n(layout.sides.begin(), std::min(left, columns), cell_side::left);
  if (last == last_column::left && columns > 0) layout.sides.back() = cell_side::left;
  return lay_out_table(rows, layout);
}

} // namespace penstock::actors
