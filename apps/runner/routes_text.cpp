// Groups of hosts, ranges of numbers, and the exceptions by name.
#include "apps/runner/routes_text.hpp"

#include "kernels/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace penstock::apps {

namespace {

constexpr std::size_t most_pairs_named = 6;

// "ranks 0-3, 7": numbers in the order they have, those that ascend one by one joined.
std::string ranges(const std::string& one, const std::string& many, const std::vector<std::int64_t>& numbers) {
  auto text = numbers.size() == 1 ? one : many;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    text += fmt::format("{} {}", i == 0 ? "" : ",", numbers[i]);
    if (end - i > 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

using pair_list = std::vector<std::pair<std::size_t, std::size_t>>;
using pairs_by_route = std::map<std::string, pair_list>;

std::string names(const pair_list& pairs) {
  std::string text;
  for (std::size_t i = 0; i < std::min(pairs.size(), most_pairs_named); ++i)
    text += fmt::format("{}{}-{}", i == 0 ? "" : ", ", pairs[i].first, pairs[i].second);
  if (pairs.size() > most_pairs_named) text += fmt::format(" and {} more", pairs.size() - most_pairs_named);
  return text;
}

void append(std::vector<std::string>& lines, const std::string& where, const pairs_by_route& found) {
  const auto usual = std::ranges::max_element(found, {}, [](const auto& each) { return each.second.size(); });
  lines.push_back(where + ": " + usual->first);
  for (const auto& [route, pairs] : found)
    if (route != usual->first) lines.push_back("  but " + names(pairs) + ": " + route);
}

} // namespace

std::vector<std::string> members_text(const std::vector<transport::member>& members) {
  struct host {
    const transport::member* first;
    std::vector<std::int64_t> ranks;
    std::vector<std::int64_t> processes;
  };
  std::vector<host> hosts;
  for (const auto& m : members) {
    auto found = std::ranges::find(hosts, m.host_identity, [](const host& h) { return h.first->host_identity; });
    if (found == hosts.end()) found = hosts.insert(hosts.end(), {&m, {}, {}});
    found->ranks.push_back(&m - members.data());
    found->processes.push_back(m.process);
  }
  std::vector<std::string> lines;
  for (const auto& h : hosts)
    lines.push_back(h.first->host + ": " + ranges("rank", "ranks", h.ranks) + ", " +
                    ranges("process", "processes", h.processes));
  return lines;
}

std::string pack_routes(const std::vector<std::string>& of_peers) {
  std::string packed;
  for (auto first = of_peers.begin(); first != of_peers.end();) {
    const auto end = std::find_if(first, of_peers.end(), [&](const auto& route) { return route != *first; });
    packed += fmt::format("{} {}\n", end - first, *first);
    first = end;
  }
  return packed;
}

std::vector<std::string> unpack_routes(const std::string& packed, std::size_t size) {
  std::vector<std::string> routes;
  const char* at = packed.data();
  const char* const end = at + packed.size();
  while (at != end) {
    std::size_t count = 0;
    const auto [rest, fault] = std::from_chars(at, end, count);
    const auto* const line_end = std::find(rest, end, '\n');
    if (fault != std::errc{} || rest == line_end || line_end == end || count > size - routes.size())
      throw error("the routes of a rank are garbled");
    routes.insert(routes.end(), count, std::string(rest + 1, line_end));
    at = line_end + 1;
  }
  if (routes.size() != size)
    throw error(fmt::format("the routes of a rank are those to {} ranks, wanted {}", routes.size(), size));
  return routes;
}

std::vector<std::string> routes_text(const std::vector<transport::member>& members,
                                     const std::vector<std::vector<std::string>>& routes) {
  pairs_by_route inside;
  pairs_by_route between;
  for (std::size_t a = 0; a < members.size(); ++a) {
    for (std::size_t b = a + 1; b < members.size(); ++b) {
      const auto& there = routes.at(a).at(b);
      const auto& back = routes.at(b).at(a);
      auto& found = members[a].host_identity == members[b].host_identity ? inside : between;
      found[there == back ? there : there + ", back " + back].emplace_back(a, b);
    }
  }
  std::vector<std::string> lines;
  const bool is_mixed = !inside.empty() && !between.empty();
  if (!inside.empty()) append(lines, is_mixed ? "inside hosts" : "all pairs", inside);
  if (!between.empty()) append(lines, is_mixed ? "between hosts" : "all pairs", between);
  return lines;
}

} // namespace penstock::apps
