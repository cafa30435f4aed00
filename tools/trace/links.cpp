// Sorts messages by their ends' places and measures them.
#include "tools/trace/links.hpp"

#include "tools/trace/intervals.hpp"
#include "tools/trace/statistics.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace penstock::actors {

namespace {

constexpr double seconds_per_ns = 1e-9;

struct link_messages {
  std::int64_t bytes = 0;
  std::vector<std::int64_t> transfers_ns;
  std::vector<time_section> under_way;
};

} // namespace

std::vector<link_summary> summarize_links(const trace_header& header, const std::vector<message_ends>& messages) {
  std::map<std::tuple<int, int, int, int>, link_messages> links;
  for (const auto& m : messages) {
    if (m.send == nullptr || m.receive == nullptr) continue;
    auto& link = links[{m.send->stage, m.receive->stage, rank_of(header, m.send->stage, m.send->replica),
                        rank_of(header, m.receive->stage, m.receive->replica)}];
    link.bytes += std::max<std::int64_t>(0, m.send->bytes);
    link.transfers_ns.push_back(std::max<std::int64_t>(0, m.transfer_ns()));
    link.under_way.emplace_back(m.send->begin_ns, m.receive->begin_ns);
  }
  std::vector<link_summary> result;
  for (auto& [key, link] : links) {
    auto& s = result.emplace_back();
    std::tie(s.from_stage, s.to_stage, s.from_rank, s.to_rank) = key;
    s.messages = static_cast<std::int64_t>(link.transfers_ns.size());
    s.bytes = link.bytes;
    s.max_seconds =
        static_cast<double>(*std::max_element(link.transfers_ns.begin(), link.transfers_ns.end())) * seconds_per_ns;
    s.median_seconds = median(std::move(link.transfers_ns)) * seconds_per_ns;
    const auto busy = length_of(united(std::move(link.under_way)));
    if (busy > 0) s.bytes_per_second = static_cast<double>(link.bytes) / (static_cast<double>(busy) * seconds_per_ns);
  }
  return result;
}

const link_summary* slowest_link(const std::vector<link_summary>& links) {
  const auto crosses = [](const link_summary& l) { return l.from_rank != l.to_rank; };
  const bool any_crosses = std::any_of(links.begin(), links.end(), crosses);
  const link_summary* slowest = nullptr;
  for (const auto& link : links)
    if (link.bytes_per_second > 0 && (!any_crosses || crosses(link)) &&
        (slowest == nullptr || link.bytes_per_second < slowest->bytes_per_second))
      slowest = &link;
  return slowest;
}

} // namespace penstock::actors
