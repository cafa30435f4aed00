// Counters and losses of an endpoint's peers.
#include "transport/peer_book.hpp"

#include "kernels/check.hpp"

namespace penstock::transport {

peer_book::peer_book(int rank, int size) : rank_(rank), pages_(static_cast<std::size_t>(size)) {
  check(rank >= 0 && rank < size, "a rank is less than the number of ranks");
}

peer_book::page& peer_book::of(int peer) {
  return pages_.at(static_cast<std::size_t>(peer));
}
const peer_book::page& peer_book::of(int peer) const {
  return pages_.at(static_cast<std::size_t>(peer));
}

void peer_book::check_sendable(int peer, const message& m) const {
  if (peer < 0 || peer >= size() || peer == rank_)
    throw std::logic_error("[transport] rank " + std::to_string(rank_) + " of " + std::to_string(size()) +
                           " cannot send to rank " + std::to_string(peer));
  if (m.header.size() > max_header_bytes)
    throw std::logic_error("[transport] a header of " + std::to_string(m.header.size()) + " bytes, at most " +
                           std::to_string(max_header_bytes) + " fit");
  check(m.parts.size() <= max_parts, "a message has at most a million parts");
  for (const part& p : m.parts)
    check(p.offset <= p.storage.size() && p.size <= p.storage.size() - p.offset, "a part lies within its buffer");
}

void peer_book::posted(int peer) {
  const std::lock_guard lock(mutex_);
  ++of(peer).under_way;
}

void peer_book::sent(int peer, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  page& p = of(peer);
  --p.under_way;
  ++p.counted.messages_sent;
  p.counted.bytes_sent += bytes;
  changed_.notify_all();
}

void peer_book::dropped(int peer, const std::string& why) {
  const std::lock_guard lock(mutex_);
  --of(peer).under_way;
  if (first_drop_.empty()) first_drop_ = why;
  changed_.notify_all();
}

void peer_book::received(int peer, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  traffic& t = of(peer).counted;
  ++t.messages_received;
  t.bytes_received += bytes;
}

bool peer_book::lose(int peer, const std::string& what) {
  const std::lock_guard lock(mutex_);
  page& p = of(peer);
  if (p.loss) return false;
  p.loss = what;
  return true;
}

std::optional<std::string> peer_book::loss(int peer) const {
  const std::lock_guard lock(mutex_);
  return of(peer).loss;
}

void peer_book::report() {
  std::unique_lock lock(mutex_);
  const auto handler = handler_;
  if (!handler) return;
  for (std::size_t peer = 0; peer < pages_.size(); ++peer) {
    page& p = pages_[peer];
    if (!p.loss || p.reported) continue;
    p.reported = true;
    const std::string what = *p.loss;
    lock.unlock(); // the handler may call the endpoint
    handler(static_cast<int>(peer), what);
    lock.lock();
  }
}

void peer_book::on_failure(endpoint::failure_handler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

void peer_book::wait_until_sent(time_point deadline) const {
  std::unique_lock lock(mutex_);
  const auto waits_for = [this] {
    std::size_t peer = 0;
    while (peer < pages_.size() && pages_[peer].under_way == 0)
      ++peer;
    return peer;
  };
  const bool settled =
      changed_.wait_until(lock, deadline, [&] { return !first_drop_.empty() || waits_for() == pages_.size(); });
  if (!first_drop_.empty()) throw error(first_drop_);
  if (!settled) {
    const std::size_t peer = waits_for();
    throw error("[transport] rank " + std::to_string(peer) + " has not taken " +
                std::to_string(pages_[peer].under_way) + " messages of rank " + std::to_string(rank_) +
                " before the deadline");
  }
}

traffic peer_book::with(int peer) const {
  const std::lock_guard lock(mutex_);
  return of(peer).counted;
}

std::uint64_t bytes_of(const message& m) {
  std::uint64_t bytes = m.header.size();
  for (const part& p : m.parts)
    bytes += p.size;
  return bytes;
}

std::string text_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

} // namespace penstock::transport
