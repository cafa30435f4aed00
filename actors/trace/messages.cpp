// Sorts the ends of messages so that those of one lie side by side.
#include "actors/trace/messages.hpp"

#include <algorithm>
#include <tuple>

namespace penstock::actors {

std::optional<traced_message> key_of_message(const trace_record& r) {
  const bool is_sent = r.kind == span_kind::send;
  if ((!is_sent && r.kind != span_kind::receive) || r.stage < 0 || r.peer < 0) return std::nullopt;
  return traced_message{r.stretch, r.minibatch, r.microbatch, is_sent ? r.stage : r.peer, is_sent ? r.peer : r.stage};
}

std::vector<message_ends> pair_messages(const std::vector<trace_record>& records) {
  std::vector<const trace_record*> ends;
  for (const auto& r : records)
    if (key_of_message(r)) ends.push_back(&r);
  std::sort(ends.begin(), ends.end(), [](const trace_record* a, const trace_record* b) {
    return std::tuple(key_of_message(*a), a->begin_ns, a->kind) < std::tuple(key_of_message(*b), b->begin_ns, b->kind);
  });
  std::vector<message_ends> messages;
  messages.reserve(ends.size() / 2);
  for (std::size_t i = 0; i < ends.size();) {
    const auto first = messages.size();
    const auto key = key_of_message(*ends[i]);
    std::size_t sends = first;
    std::size_t receives = first;
    for (; i < ends.size() && key_of_message(*ends[i]) == key; ++i) {
      const bool is_sent = ends[i]->kind == span_kind::send;
      const auto at = is_sent ? sends++ : receives++;
      if (at == messages.size()) messages.emplace_back();
      (is_sent ? messages[at].send : messages[at].receive) = ends[i];
    }
  }
  return messages;
}

} // namespace penstock::actors
