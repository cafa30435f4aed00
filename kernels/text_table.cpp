// Widths first, then lines.
#include "kernels/text_table.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock {

namespace {

using table_rows = std::vector<std::vector<std::string>>;

constexpr std::size_t gap = 2;
constexpr std::size_t least_text = 16; // narrower, a column of words is no joy to read

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

// Bytes of the first `characters` of a text.
std::size_t bytes_of(std::string_view text, std::size_t characters) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (begins_character(text[at]) && characters-- == 0) break;
  return at;
}

bool may_break_behind(std::string_view text, std::size_t at) {
  const char c = text[at];
  return c == ' ' || c == ',' || c == '/' || c == '_' || (c == '.' && at > 0 && text[at - 1] == '.');
}

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  for (std::size_t from = 0; from < text.size();) {
    const auto to = std::min(text.find(' ', from), text.size());
    longest = std::max(longest, width_of(text.substr(from, to - from)));
    from = to + 1;
  }
  return longest;
}

std::vector<std::string> broken(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (width_of(text) > width) {
    auto end = bytes_of(text, width);
    if (text[end] != ' ')
      for (auto at = end; at > 0; --at)
        if (may_break_behind(text, at - 1)) {
          end = at;
          break;
        }
    auto line = text.substr(0, end);
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    lines.emplace_back(line);
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  lines.emplace_back(text);
  return lines;
}

std::size_t line_width(const std::vector<std::size_t>& widths, const table_layout& layout) {
  return std::accumulate(widths.begin(), widths.end(), width_of(layout.indent) + gap * (widths.size() - 1));
}

struct column_widths {
  std::vector<std::size_t> natural; ///< nothing is broken
  std::vector<std::size_t> titled;  ///< titles are broken between words
  std::vector<std::size_t> least;   ///< cells too
};

column_widths measure(const table_rows& rows, const table_layout& layout) {
  column_widths w;
  for (std::size_t c = 0; c < rows.front().size(); ++c) {
    std::size_t body = 0;
    for (std::size_t r = 1; r < rows.size(); ++r)
      body = std::max(body, width_of(rows[r][c]));
    w.natural.push_back(std::max(body, width_of(rows[0][c])));
    w.titled.push_back(std::max(body, longest_word(rows[0][c])));
    const auto narrow = std::max(least_text, longest_word(rows[0][c]));
    w.least.push_back(layout.sides[c] == cell_side::left ? std::min(w.titled.back(), narrow) : w.titled.back());
  }
  return w;
}

// Takes one from the widest of those that may become narrower, until the line fits.
void shrink(std::vector<std::size_t>& widths, const std::vector<std::size_t>& least, const table_layout& layout) {
  while (line_width(widths, layout) > layout.columns) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c)
      if (widths[c] > least[c] && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

std::string draw(const table_rows& rows, const std::vector<std::size_t>& widths, const table_layout& layout) {
  std::string text;
  for (const auto& row : rows) {
    std::vector<std::vector<std::string>> cells;
    std::size_t lines = 1;
    for (std::size_t c = 0; c < row.size(); ++c) {
      cells.push_back(broken(row[c], widths[c]));
      lines = std::max(lines, cells.back().size());
    }
    for (std::size_t l = 0; l < lines; ++l) {
      std::string line = layout.indent;
      for (std::size_t c = 0; c < cells.size(); ++c) {
        const std::string& cell = l < cells[c].size() ? cells[c][l] : std::string();
        const std::string space(widths[c] - width_of(cell), ' ');
        line += c == 0 ? "" : std::string(gap, ' ');
        line += layout.sides[c] == cell_side::left ? cell + space : space + cell;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

// The first column, and as many of those from `from` on as have room.
std::vector<std::size_t> next_part(const column_widths& w, std::size_t from, const table_layout& layout) {
  std::vector<std::size_t> part{0, from};
  auto used = width_of(layout.indent) + w.least[0] + gap + w.least[from];
  for (auto c = from + 1; c < w.least.size() && (used += gap + w.least[c]) <= layout.columns; ++c)
    part.push_back(c);
  return part;
}

std::string lay_out_in_parts(const table_rows& rows, const column_widths& w, const table_layout& layout) {
  std::string text;
  for (std::size_t from = 1; from < w.least.size();) {
    const auto part = next_part(w, from, layout);
    from = part.back() + 1;
    table_layout of_part{{}, layout.indent, layout.columns};
    table_rows some(rows.size());
    for (const auto c : part) {
      of_part.sides.push_back(layout.sides[c]);
      for (std::size_t r = 0; r < rows.size(); ++r)
        some[r].push_back(rows[r][c]);
    }
    const auto of = measure(some, of_part);
    auto widths = of.natural;
    shrink(widths, of.titled, of_part);
    shrink(widths, of.least, of_part);
    text += (text.empty() ? "" : "\n") + draw(some, widths, of_part);
  }
  return text;
}

} // namespace

std::string lay_out_table(std::vector<std::vector<std::string>> rows, const table_layout& layout) {
  if (rows.empty() || rows.front().empty()) return "";
  check(layout.sides.size() == rows.front().size(), "a side for each column");
  for (auto& row : rows) {
    check(row.size() <= layout.sides.size(), "no cell without a column");
    row.resize(layout.sides.size());
  }
  const auto w = measure(rows, layout);
  auto widths = w.natural;
  if (layout.columns == 0 || line_width(widths, layout) <= layout.columns) return draw(rows, widths, layout);
  shrink(widths, w.titled, layout);
  shrink(widths, w.least, layout);
  if (widths.size() <= 2 || line_width(widths, layout) <= layout.columns) return draw(rows, widths, layout);
  return lay_out_in_parts(rows, w, layout);
}

std::string counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : noun.ends_with("tch") ? "es" : "s");
}

std::string fold_lines(const std::string& lines, std::size_t columns) {
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

std::size_t output_columns() {
  if (::isatty(STDOUT_FILENO) != 1) return 0;
  constexpr std::size_t usual = 80;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ? usual : size.ws_col;
}

} // namespace penstock
