// What every actor of a run shares: the services, progress for the stall watchdog, and where failures go.
#pragma once

#include "actors/run/control_messages.hpp"
#include "actors/trace/recorder.hpp"
#include "kernels/little_memory.hpp"

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <atomic>

namespace penstock::actors {

struct actor_context {
  run_services& services;
  caf::actor coordinator;
  std::atomic<std::int64_t> progress{0};   ///< raised by every finished piece of work
  std::atomic<std::int64_t> stage{-1};     ///< what a stage replica here last began: for messages about this rank
  std::atomic<std::int64_t> minibatch{-1}; ///< -1: it evaluates

  /// "working on stage 1, minibatch 12".
  std::string describe() const;
};
using context_ptr = std::shared_ptr<actor_context>;

/// Runs a handler's body; what it throws becomes the run's failure. An actor never dies of an exception.
template <class Body>
void guarded(actor_context& context, const std::string& who, Body&& body) {
  try {
    body();
  } catch (const std::exception& e) {
    caf::anon_send(context.coordinator, failure_msg{who, described(e)});
  }
}

} // namespace penstock::actors
