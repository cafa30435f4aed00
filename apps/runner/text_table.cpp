// Tables and numbers as a person reads them.
#include "apps/runner/text_table.hpp"

#include "kernels/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace penstock::apps {

namespace {

bool is_number_column(const std::vector<std::vector<std::string>>& rows, std::size_t column) {
  return std::all_of(rows.begin() + 1, rows.end(), [&](const auto& row) {
    return !row[column].empty() && std::isdigit(static_cast<unsigned char>(row[column][0])) != 0;
  });
}

} // namespace

std::string text_table(const std::vector<std::vector<std::string>>& rows, const std::string& indent) {
  if (rows.empty()) return "";
  table_layout layout{{}, indent, output_columns()};
  for (std::size_t c = 0; c < rows.front().size(); ++c)
    layout.sides.push_back(rows.size() > 1 && is_number_column(rows, c) ? cell_side::right : cell_side::left);
  return lay_out_table(rows, layout);
}

int picture_columns(std::size_t stages) {
  constexpr int usual = 110;
  constexpr int replica_and_bars = 6; // what stands in a row beside its name
  const auto line = static_cast<int>(std::min<std::size_t>(output_columns(), 1000));
  const auto name = static_cast<int>(fmt::formatted_size("stage {}", stages));
  return line == 0 ? usual : std::clamp(line - name - replica_and_bars, 10, usual);
}

std::string byte_text(std::int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto amount = static_cast<double>(bytes);
  const char* const units[] = {"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (amount >= 999.5 && unit + 1 < std::size(units)) {
    amount /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", amount, units[unit]);
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "-";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string countdown_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "-";
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string percent_text(double part, double of) {
  return of > 0 ? fmt::format("{:.2f} %", 100 * part / of) : "-";
}

namespace {

std::string name_of(const shown_value& s) {
  return s.name == "accuracy" ? "top-1" : s.name == "top5" ? "top-5" : s.name;
}

} // namespace

std::string evaluation_text(const actors::evaluation& found) {
  auto text = fmt::format("loss {:.4f}", found.loss);
  for (const auto& s : found.shown)
    text += ", " + name_of(s) + " " +
            (s.is_share ? percent_text(s.value, found.samples > 0 ? 1 : 0) : fmt::format("{:.2f}", s.value));
  return text;
}

} // namespace penstock::apps
