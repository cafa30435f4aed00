// Signals of a run: an orderly end, or a checkpoint.
#pragma once

#include "actors/trainer.hpp"

namespace penstock::apps {

/// While it lives, SIGINT and SIGTERM set control.stop, SIGUSR1 sets control.checkpoint. A second SIGINT or SIGTERM
/// ends the process at once. One at a time, made before there are other threads; `control` must outlive it.
class signal_guard {
public:
  explicit signal_guard(actors::run_control& control);
  ~signal_guard();
  signal_guard(const signal_guard&) = delete;
  signal_guard& operator=(const signal_guard&) = delete;

  /// The exit code that belongs to the signal that asked for the end; 0 when none did.
  static int exit_code();
};

/// For a program that is about to take this one's place: while it lives, signals that come wait for it in this thread,
/// which alone may call exec. Whoever makes one asks signal_guard::exit_code() afterwards for what came before. The
/// next signal_guard, of either program, takes what has come meanwhile.
class held_signals {
public:
  held_signals();
  ~held_signals();
  held_signals(const held_signals&) = delete;
  held_signals& operator=(const held_signals&) = delete;
};

} // namespace penstock::apps
