// Decoding, holding back, handing on.
#include "actors/ranks/gate.hpp"

#include "kernels/check.hpp"

#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace penstock::actors {

namespace {

// Lets the thread that brings a message run its handler: to wake a thread of the scheduler, and then the network's
// again for the answer, costs more than a megabyte takes on the wire. What the handler sends goes to the scheduler. The
// actor keeps a pointer to this until it is next resumed, so it must send nothing in between, as from on_exit().
class bringing_thread final : public caf::execution_unit {
public:
  explicit bringing_thread(caf::actor_system& system) : caf::execution_unit(&system) {}
  void exec_later(caf::resumable* job) override {
    if (std::exchange(is_taken_, true))
      system().scheduler().enqueue(job);
    else
      job_ = job;
  }
  /// Handles the message, if its actor was idle.
  void run() {
    if (job_ == nullptr) return;
    if (job_->resume(this, 1) == caf::resumable::resume_later)
      system().scheduler().enqueue(job_);
    else
      caf::intrusive_ptr_release(job_);
  }

private:
  bool is_taken_ = false;
  caf::resumable* job_ = nullptr; // with the reference that it was scheduled with
};

} // namespace

/// A message on its way in. Holds what may only be let go while the run is still there.
class gate::passage {
public:
  explicit passage(gate& through) : gate_(through) {
    const std::lock_guard lock(gate_.mutex_);
    if (gate_.closed_) return;
    ++gate_.passing_;
    context_ = gate_.context_;
  }
  ~passage() {
    if (!context_) return;
    context_.reset();
    const std::lock_guard lock(gate_.mutex_);
    if (--gate_.passing_ == 0) gate_.passed_.notify_all();
  }
  passage(const passage&) = delete;
  passage& operator=(const passage&) = delete;
  actor_context* context() const { return context_.get(); }

private:
  gate& gate_;
  context_ptr context_;
};

void gate::admit(const address& who, caf::actor actor, memory_pool* pool) {
  const std::lock_guard lock(mutex_);
  residents_[who] = {std::move(actor), pool};
}

void gate::open(std::int64_t stretch) {
  const std::lock_guard lock(mutex_);
  open_ = stretch;
  std::vector<arrival> still;
  for (auto& a : waiting_) {
    if (stretch_of(a.message) == stretch)
      std::visit([to = resident_for(a)](auto& m) { caf::anon_send(to, std::move(m)); }, a.message);
    else
      still.push_back(std::move(a));
  }
  waiting_ = std::move(still);
}

void gate::close() {
  constexpr auto patience = std::chrono::seconds(10);
  std::unique_lock lock(mutex_);
  closed_ = true;
  if (!passed_.wait_for(lock, patience, [this] { return passing_ == 0; })) {
    std::fputs("penstock: the handler of a message from another rank does not return; leaving\n", stderr);
    std::_Exit(1);
  }
  residents_.clear();
  waiting_.clear();
  context_.reset();
}

// A peer that sends to nobody gets the gate's own memory; take() then says what is wrong.
transport::part gate::place(int, std::string_view header, std::size_t, std::size_t bytes) {
  const std::lock_guard lock(mutex_); // close() waits: a resident's pool may go after it
  const auto who = header.size() < sizeof(address) ? residents_.end() : residents_.find(address_of(header));
  auto& pool = who != residents_.end() && who->second.pool != nullptr ? *who->second.pool : own_pool_;
  return {pool.allocate(bytes, memory_use::activations), 0, bytes};
}

void gate::take(int peer, transport::message m) {
  const passage in(*this);
  if (in.context() == nullptr) return;
  guarded(*in.context(), "gate for rank " + std::to_string(peer), [&] {
    auto a = decode(m);
    m.parts.clear();
    pass(std::move(a));
  });
}

void gate::pass(arrival a) {
  caf::actor to;
  {
    const std::lock_guard lock(mutex_);
    if (open_ != stretch_of(a.message)) return waiting_.push_back(std::move(a));
    to = resident_for(a);
  }
  // Only replicas are known never to wait in a handler: a layer actor is the user's, and the network has others to
  // serve.
  if (a.to.of != address::part::replica)
    return std::visit([&](auto& m) { caf::anon_send(to, std::move(m)); }, a.message);
  bringing_thread here(to.home_system());
  std::visit(
      [&](auto& m) {
        to->enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(m)), &here);
      },
      a.message);
  here.run(); // without the lock: a handler may end the run
}

caf::actor gate::resident_for(const arrival& a) {
  const auto who = residents_.find(a.to);
  if (who == residents_.end())
    throw error("[message] a message for " + to_string(a.to) + " came, which is not on this rank");
  ++context_->progress;
  return who->second.actor;
}

} // namespace penstock::actors
