// Turns spans into rows of characters.
#include "planner/draw_timeline.hpp"

#include "planner/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <stdexcept>

namespace penstock::planner {

namespace {

/// What fills a cell so far: the span with the largest share, and how much is filled at all.
struct cell {
  const timeline_span* owner = nullptr;
  double share = 0;
  double filled = 0;
};

using row = std::vector<cell>;

bool is_drawable(const timeline_span& s) {
  return std::isfinite(s.begin) && std::isfinite(s.end) && s.end > s.begin;
}

/// Time in columns; the frame of a picture.
struct scale {
  double from, to;
  int width;
  double column(double time) const { return (std::clamp(time, from, to) - from) / (to - from) * width; }
};

void paint(row& cells, const timeline_span& s, const scale& frame) {
  const auto begin = frame.column(s.begin), end = frame.column(s.end);
  for (auto i = static_cast<std::size_t>(begin); i < cells.size() && static_cast<double>(i) < end; ++i) {
    const auto left = static_cast<double>(i);
    const auto share = std::min(end, left + 1) - std::max(begin, left);
    auto& c = cells[i];
    c.filled += share;
    if (share > c.share) {
      c.share = share;
      c.owner = &s;
    }
  }
}

/// The cells of one span: digits and arrows, at least one arrow.
std::string label(const timeline_span& s, std::size_t length) {
  if (s.kind == action_kind::update) return std::string(length, 'u');
  const bool is_forward = s.kind == action_kind::forward;
  auto digits = std::to_string(s.minibatch);
  if (digits.size() >= length) digits = digits.substr(digits.size() - (length - 1));
  const auto filler = is_forward ? '>' : s.kind == action_kind::backward_weight ? '=' : '<';
  const std::string arrows(length - digits.size(), filler);
  return is_forward ? digits + arrows : arrows + digits;
}

/// A cell that is mostly empty shows so; a sliver of rounding does not decide.
const timeline_span* owner_of(const cell& c) {
  return c.share + 1e-9 >= 1 - c.filled ? c.owner : nullptr;
}

std::string text_of(const row& cells) {
  std::string text;
  for (std::size_t i = 0; i < cells.size();) {
    const auto* owner = owner_of(cells[i]);
    auto end = i;
    while (end < cells.size() && owner_of(cells[end]) == owner)
      ++end;
    text += owner == nullptr ? std::string(end - i, '.') : label(*owner, end - i);
    i = end;
  }
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

} // namespace

std::vector<timeline_span> timeline_of(const simulation& run) {
  std::vector<timeline_span> spans;
  spans.reserve(run.spans.size());
  const auto positions = std::max(1, static_cast<int>(run.busy.size()) / run.chunks);
  for (const auto& s : run.spans)
    spans.push_back({s.stage % positions, s.replica, s.what.kind, s.what.minibatch, s.begin, s.end});
  return spans;
}

std::string rows_of(const simulation& run) {
  return run.chunks > 1 ? "worker" : "stage";
}

std::string draw_timeline(const std::vector<timeline_span>& spans, double from, double to, int width,
                          const std::string& row_word) {
  if (width < 10 || width > 100'000)
    throw std::invalid_argument("timeline width is " + std::to_string(width) + ", wanted 10 to 100000");
  if (!std::isfinite(from) || !std::isfinite(to) || from >= to)
    throw std::invalid_argument("timeline from " + number(from) + " to " + number(to) + " is empty");
  const scale frame{from, to, width};
  std::map<std::pair<int, int>, row> rows;
  std::map<int, int> last_replica;
  for (const auto& s : spans) {
    auto& cells = rows[{s.stage, s.replica}];
    cells.resize(static_cast<std::size_t>(width));
    last_replica[s.stage] = std::max(last_replica[s.stage], s.replica);
    if (is_drawable(s) && s.end > from && s.begin < to) paint(cells, s, frame);
  }
  std::string text;
  std::size_t margin = 0;
  const auto name_of = [&](const std::pair<int, int>& place) {
    const auto [stage, replica] = place;
    auto title = row_word + " " + std::to_string(stage);
    if (last_replica[stage] > 0) title.append(".").append(std::to_string(replica));
    return title;
  };
  for (const auto& [place, cells] : rows)
    margin = std::max(margin, name_of(place).size());
  for (const auto& [place, cells] : rows) {
    auto title = name_of(place);
    title.resize(margin, ' ');
    text += title + " |" + text_of(cells) + "|\n";
  }
  const bool is_split =
      std::any_of(spans.begin(), spans.end(), [](const auto& s) { return s.kind == action_kind::backward_weight; });
  return text + "time " + number(from) + " to " + number(to) + "; 7> forward, <7 backward of minibatch 7, " +
         (is_split ? "=7 its weights' part, " : "") + "u update, . idle\n";
}

std::string draw_timeline(const std::vector<timeline_span>& spans, int width, const std::string& row_word) {
  auto from = std::numeric_limits<double>::infinity(), to = -from;
  for (const auto& s : spans)
    if (is_drawable(s)) {
      from = std::min(from, s.begin);
      to = std::max(to, s.end);
    }
  return from < to ? draw_timeline(spans, from, to, width, row_word) : std::string();
}

} // namespace penstock::planner
