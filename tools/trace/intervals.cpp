// Walks over lists of sections in order.
#include "tools/trace/intervals.hpp"

#include <algorithm>

namespace penstock::actors {

std::vector<time_section> united(std::vector<time_section> sections) {
  std::sort(sections.begin(), sections.end());
  std::vector<time_section> result;
  for (const auto& section : sections) {
    if (section.first >= section.second) continue;
    if (!result.empty() && section.first <= result.back().second)
      result.back().second = std::max(result.back().second, section.second);
    else
      result.push_back(section);
  }
  return result;
}

std::int64_t length_of(const std::vector<time_section>& sections) {
  std::int64_t sum = 0;
  for (const auto& [begin, end] : sections)
    sum += end - begin;
  return sum;
}

std::int64_t time_within(const std::vector<time_section>& sections, std::int64_t begin, std::int64_t end) {
  auto at = std::upper_bound(sections.begin(), sections.end(), begin,
                             [](std::int64_t time, const time_section& s) { return time < s.second; });
  std::int64_t sum = 0;
  for (; at != sections.end() && at->first < end; ++at)
    sum += std::max<std::int64_t>(0, std::min(end, at->second) - std::max(begin, at->first));
  return sum;
}

std::vector<time_section> common(const std::vector<time_section>& a, const std::vector<time_section>& b) {
  std::vector<time_section> result;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end(); x->second < y->second ? ++x : ++y) {
    const time_section both{std::max(x->first, y->first), std::min(x->second, y->second)};
    if (both.first < both.second) result.push_back(both);
  }
  return result;
}

std::vector<time_section> without(const std::vector<time_section>& a, const std::vector<time_section>& b) {
  std::vector<time_section> result;
  auto y = b.begin();
  for (auto [begin, end] : a) {
    while (y != b.end() && y->second <= begin)
      ++y;
    for (auto cut = y; cut != b.end() && cut->first < end; ++cut) {
      if (cut->first > begin) result.emplace_back(begin, cut->first);
      begin = std::max(begin, cut->second);
    }
    if (begin < end) result.emplace_back(begin, end);
  }
  return result;
}

} // namespace penstock::actors
