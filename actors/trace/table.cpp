// Pads cells to their columns.
#include "actors/trace/table.hpp"

#include <algorithm>

namespace penstock::actors {

std::string percent(double share) {
  return format("%.1f%%", 100 * share);
}

std::string table(const std::vector<table_row>& rows, std::size_t left, last_column last) {
  std::vector<std::size_t> widths;
  for (const auto& cells : rows)
    for (std::size_t i = 0; i < cells.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], cells[i].size());
    }
  std::string text;
  for (const auto& cells : rows) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string space(widths[i] - cells[i].size(), ' ');
      line += i == 0 ? "" : "  ";
      const bool is_left = i < left || (last == last_column::left && i + 1 == cells.size());
      line += is_left ? cells[i] + space : space + cells[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line;
    text += '\n';
  }
  return text;
}

} // namespace penstock::actors
