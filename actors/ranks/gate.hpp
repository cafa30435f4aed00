// Where messages from other processes come in: each goes to its actor, those of a stretch that has not begun here wait.
#pragma once

#include "actors/ranks/wire.hpp"
#include "actors/run/actor_context.hpp"

#include <condition_variable>
#include <map>
#include <mutex>

namespace penstock::actors {

/// Ranks begin a stretch at their own time; what comes early must not meet an actor that is still in the stretch
/// before. A stage replica that is idle handles its message on the thread that brings it. Safe to call from any thread.
class gate final : public transport::receiver {
public:
  explicit gate(context_ptr context) : context_(std::move(context)) {}

  /// Before the first message: who is at an address. Tensors for it come from `pool`, or from the gate's own.
  void admit(const address& who, caf::actor actor, memory_pool* pool = nullptr);
  /// The actors have been told of the stretch: its messages may pass, and those that waited do.
  void open(std::int64_t stretch);
  /// Nothing passes any more, and the actors are let go. Waits for a message that is on its way in; ends the process
  /// when its handler does not return within 10 s. Not to be called from a handler.
  void close();

  transport::part place(int peer, std::string_view header, std::size_t index, std::size_t bytes) override;
  void take(int peer, transport::message m) override;

private:
  struct resident {
    caf::actor actor;
    memory_pool* pool = nullptr;
  };
  class passage;
  void pass(arrival a);
  caf::actor resident_for(const arrival& a);

  context_ptr context_;
  memory_pool own_pool_;
  std::mutex mutex_;
  std::condition_variable passed_;
  int passing_ = 0;
  bool closed_ = false;
  std::optional<std::int64_t> open_;
  std::map<address, resident> residents_;
  std::vector<arrival> waiting_;
};

} // namespace penstock::actors
