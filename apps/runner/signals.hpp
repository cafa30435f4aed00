// Signals of a run: an orderly end, or a checkpoint.
#pragma once

#include "actors/run_control.hpp"

#include <string_view>
#include <thread>

namespace penstock::apps {

/// While it lives, SIGINT and SIGTERM set control.stop and are answered on standard error at once, SIGUSR1 sets
/// control.checkpoint. Where there is nothing to lose (control.part) the process is given a moment to end by itself and
/// then leaves. The same signal within a second counts as one: a broadcast reaches a process by several ways. After
/// that, or when it is another one, it ends the process at once; so does never what `penstock launch` passes on, which
/// kills by itself. One at a time, made before there are other threads; `control` must outlive it.
class signal_guard {
public:
  /// `program` stands before what is said; only its first bytes are kept.
  explicit signal_guard(actors::run_control& control, std::string_view program = "penstock");
  ~signal_guard();
  signal_guard(const signal_guard&) = delete;
  signal_guard& operator=(const signal_guard&) = delete;

  /// The exit code that belongs to the signal that asked for the end; 0 when none did.
  static int exit_code();
  /// That signal, when this process got it itself; 0 when none came or another rank told of it.
  static int own_signal();
  /// Another rank of the job has got it: counts as a first one here.
  static void told(int signal);
  /// In a job rank 0 alone answers.
  static void keep_quiet();

private:
  void stand_by();
  int wake_ = -1; ///< an eventfd
  std::thread ender_;
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
