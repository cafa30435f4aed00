// Signals of a run: an orderly end, or a checkpoint.
#pragma once

#include "actors/trainer.hpp"

namespace penstock::apps {

/// While it lives, SIGINT and SIGTERM set control.stop, SIGUSR1 sets control.checkpoint. A second SIGINT or SIGTERM
/// ends the process at once. One at a time; `control` must outlive it.
class signal_guard {
public:
  explicit signal_guard(actors::run_control& control);
  ~signal_guard();
  signal_guard(const signal_guard&) = delete;
  signal_guard& operator=(const signal_guard&) = delete;

  /// The exit code that belongs to the signal that asked for the end; 0 when none did.
  static int exit_code();
};

} // namespace penstock::apps
