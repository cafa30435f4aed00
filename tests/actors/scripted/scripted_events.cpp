// Queues, of which the one that has waited longest is choice 0.
#include "tests/actors/scripted/scripted_events.hpp"

#include <algorithm>

namespace penstock::testing {

scripted_events::queue& scripted_events::at(int rank, const std::string& name) {
  auto& q = queues_[std::to_string(rank) + "/" + name];
  q.rank = rank;
  return q;
}

void scripted_events::post(int rank, const std::string& name, scripted_event e, bool is_bag) {
  auto& q = at(rank, name);
  q.is_bag = is_bag;
  e.age = ++posted_;
  q.events.push_back(std::move(e));
}

void scripted_events::post_before_last(int rank, const std::string& name, scripted_event e) {
  auto& events = at(rank, name).events;
  e.age = ++posted_;
  events.insert(events.end() - (events.empty() ? 0 : 1), std::move(e));
}

std::ptrdiff_t scripted_events::choose_from(const queue& q) {
  std::size_t free = 1;
  if (q.is_bag)
    free = q.events.size();
  else if (q.events.front().may_overtake)
    while (free < q.events.size() && q.events[free].may_overtake)
      ++free;
  return free > 1 ? static_cast<std::ptrdiff_t>(choices_.choose(free)) : 0;
}

bool scripted_events::happen(std::vector<std::string>* log) {
  std::vector<queue*> ready;
  for (auto& [name, q] : queues_)
    if (!q.events.empty() && !is_lost(q.rank)) ready.push_back(&q);
  if (ready.empty()) return false;
  std::sort(ready.begin(), ready.end(),
            [](const auto* a, const auto* b) { return a->events.front().age < b->events.front().age; });
  auto& q = *ready[choices_.choose(ready.size())];
  const auto at = q.events.begin() + choose_from(q);
  auto e = std::move(*at);
  q.events.erase(at);
  if (log != nullptr) log->push_back("rank " + std::to_string(q.rank) + ": " + e.what);
  e.run();
  return true;
}

} // namespace penstock::testing
