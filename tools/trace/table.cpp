// Which column is set to which side.
#include "tools/trace/table.hpp"

#include "kernels/text_table.hpp"

#include <algorithm>

namespace penstock::actors {

std::string percent(double share) {
  return format("%.1f%%", 100 * share);
}

std::string prose(const std::string& lines) {
  return fold_lines(lines, output_columns());
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
