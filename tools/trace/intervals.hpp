// Stretches of time, and how much of one lies in another.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace penstock::actors {

/// Begin and end in nanoseconds.
using time_section = std::pair<std::int64_t, std::int64_t>;

/// The same time in order and without overlaps. The other functions take only such lists.
std::vector<time_section> united(std::vector<time_section> sections);

std::int64_t length_of(const std::vector<time_section>& sections);

/// Time of [begin, end) within the sections.
std::int64_t time_within(const std::vector<time_section>& sections, std::int64_t begin, std::int64_t end);

/// What both have.
std::vector<time_section> common(const std::vector<time_section>& a, const std::vector<time_section>& b);

/// What of `a` is not in `b`.
std::vector<time_section> without(const std::vector<time_section>& a, const std::vector<time_section>& b);

} // namespace penstock::actors
