// Decoding, holding back, handing on.
#include "actors/ranks/gate.hpp"

#include "kernels/check.hpp"

namespace penstock::actors {

void gate::admit(const address& who, caf::actor actor, memory_pool* pool) {
  const std::lock_guard lock(mutex_);
  residents_[who] = {std::move(actor), pool};
}

void gate::open(std::int64_t segment) {
  const std::lock_guard lock(mutex_);
  open_ = segment;
  std::vector<arrival> still;
  for (auto& a : waiting_) {
    if (segment_of(a.message) == segment)
      deliver(std::move(a));
    else
      still.push_back(std::move(a));
  }
  waiting_ = std::move(still);
}

void gate::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  residents_.clear();
  waiting_.clear();
}

// A peer that sends to nobody gets the gate's own memory; take() then says what is wrong.
transport::part gate::place(int, std::string_view header, std::size_t, std::size_t bytes) {
  const std::lock_guard lock(mutex_); // close() waits: a resident's pool may go after it
  const auto who = header.size() < sizeof(address) ? residents_.end() : residents_.find(address_of(header));
  auto& pool = who != residents_.end() && who->second.pool != nullptr ? *who->second.pool : own_pool_;
  return {pool.allocate(bytes, memory_use::activations), 0, bytes};
}

void gate::take(int peer, transport::message m) {
  guarded(*context_, "gate for rank " + std::to_string(peer), [&] {
    auto a = decode(m);
    m.parts.clear();
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (open_ == segment_of(a.message))
      deliver(std::move(a));
    else
      waiting_.push_back(std::move(a));
  });
}

void gate::deliver(arrival a) {
  const auto who = residents_.find(a.to);
  if (who == residents_.end())
    throw error("[message] a message for " + to_string(a.to) + " came, which is not on this rank");
  ++context_->progress;
  std::visit([&](auto& m) { caf::anon_send(who->second.actor, std::move(m)); }, a.message);
}

} // namespace penstock::actors
