// The words for kinds of span and reasons to wait.
#include "actors/trace/record.hpp"

#include <algorithm>
#include <array>

namespace penstock::actors {

std::string_view name_of(span_kind kind) {
  static constexpr std::array<std::string_view, span_kinds> names{"forward", "backward", "update", "all-reduce", "send",
                                                                  "receive", "evaluate", "load",   "wait"};
  const auto i = static_cast<std::size_t>(kind);
  return i < names.size() ? names[i] : "unknown";
}

std::string_view name_of(wait_reason reason) {
  static constexpr std::array<std::string_view, wait_reasons> names{"none", "no input", "no credit",
                                                                    "version not ready", "all-reduce"};
  const auto i = static_cast<std::size_t>(reason);
  return i < names.size() ? names[i] : "unknown";
}

bool is_training(const trace_record& r) {
  return r.stage >= 0 && (r.kind == span_kind::forward || r.kind == span_kind::backward || r.kind == span_kind::update);
}

std::string layers_of(const trace_header& header, std::size_t stage) {
  return stage < header.stage_layers.size() ? header.stage_layers[stage] : std::string("-");
}

int rank_of(const trace_header& header, int stage, int replica) {
  if (stage < 0 || static_cast<std::size_t>(stage) >= header.ranks.size()) return -1;
  const auto& ranks = header.ranks[static_cast<std::size_t>(stage)];
  return replica >= 0 && static_cast<std::size_t>(replica) < ranks.size() ? ranks[static_cast<std::size_t>(replica)]
                                                                          : -1;
}

int rank_count(const trace_header& header) {
  if (header.ranks.empty()) return 0;
  auto count = static_cast<int>(header.hosts.size());
  for (const auto& replicas : header.ranks)
    for (const int rank : replicas)
      count = std::max(count, rank + 1);
  return count;
}

bool is_merged(const trace_header& header) {
  return header.rank < 0 && !header.ranks.empty();
}

std::string actor_name(const trace_header& header, int stage, int replica) {
  if (stage == -1) return "the source";
  if (stage == -2) return "the metrics";
  std::string name = "stage " + std::to_string(stage);
  const auto at = static_cast<std::size_t>(stage);
  if (at < header.replicas.size() && header.replicas[at] > 1) name += " replica " + std::to_string(replica);
  return name;
}

} // namespace penstock::actors
