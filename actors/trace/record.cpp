// The words for kinds of span and reasons to wait.
#include "actors/trace/record.hpp"

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

std::string actor_name(const trace_header& header, int stage, int replica) {
  if (stage == -1) return "the source";
  if (stage == -2) return "the metrics";
  std::string name = "stage " + std::to_string(stage);
  const auto at = static_cast<std::size_t>(stage);
  if (at < header.replicas.size() && header.replicas[at] > 1) name += " replica " + std::to_string(replica);
  return name;
}

} // namespace penstock::actors
