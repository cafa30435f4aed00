// Messages to their receivers, or on hold until there is one.
#include "transport/inbox.hpp"

#include "kernels/check.hpp"

#include <cstring>

namespace penstock::transport {

void inbox::listen(channel from, std::shared_ptr<receiver> taker) {
  const std::lock_guard lock(mutex_);
  std::swap(takers_[from], taker); // the former one goes after the lock, as its destructor may call us
}

std::shared_ptr<receiver> inbox::taker_of(channel to) const {
  const std::lock_guard lock(mutex_);
  const auto it = takers_.find(to);
  return it == takers_.end() ? nullptr : it->second;
}

arrival inbox::announce(int peer, channel to, std::string header, std::size_t parts) const {
  arrival a{peer, to, {std::move(header), {}}, taker_of(to)};
  a.content.parts.resize(parts);
  return a;
}

const part& inbox::place(arrival& a, std::size_t index, std::size_t bytes) {
  part& target = a.content.parts.at(index);
  target = a.taker ? a.taker->place(a.peer, a.content.header, index, bytes)
                   : part{pool_.allocate(bytes, memory_use::scratch), 0, bytes};
  const std::size_t room = target.storage.size();
  if (target.size != bytes || target.offset > room || bytes > room - target.offset)
    throw error("[transport] part " + std::to_string(index) + " has " + std::to_string(bytes) +
                " bytes, its receiver gave " + std::to_string(target.size) + " at " + std::to_string(target.offset) +
                " of a buffer of " + std::to_string(room));
  return target;
}

void inbox::complete(arrival a) {
  const auto now = taker_of(a.to);
  if (!now)
    held_[a.to].push_back(std::move(a));
  else if (now == a.taker)
    now->take(a.peer, std::move(a.content));
  else // the listener changed while the message came in
    hand_over(std::move(a));
}

std::optional<arrival> inbox::next_held(channel to) {
  const auto it = held_.find(to);
  if (it == held_.end() || !taker_of(to)) return std::nullopt;
  arrival next = std::move(it->second.front());
  it->second.pop_front();
  if (it->second.empty()) held_.erase(it);
  return next;
}

void inbox::hand_over(arrival held) {
  arrival fresh = announce(held.peer, held.to, std::move(held.content.header), held.content.parts.size());
  for (std::size_t i = 0; i < held.content.parts.size(); ++i) {
    const part& from = held.content.parts[i];
    const part& to = place(fresh, i, from.size);
    if (from.size > 0) std::memcpy(to.data(), from.data(), from.size);
  }
  complete(std::move(fresh));
}

} // namespace penstock::transport
