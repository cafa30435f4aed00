// Signals as something to read, so that the launcher handles them between two other steps and never in the middle of
// one.
#pragma once

#include "tools/launch/descriptor.hpp"

#include <csignal>
#include <vector>

namespace penstock::tools::launcher {

/// While it lives, SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD wait in it, except those that whoever started this
/// program had ignored (nohup); SIGPIPE is ignored. One at a time, made before any thread is.
class signal_inbox {
public:
  /// Throws penstock::error.
  signal_inbox();
  ~signal_inbox();
  signal_inbox(const signal_inbox&) = delete;
  signal_inbox& operator=(const signal_inbox&) = delete;

  int readable() const { return inbox_.get(); } ///< to poll
  std::vector<int> take();                      ///< those that came; several of one kind count as one

  /// For a new process, before exec: what there was before this object. Async-signal-safe.
  static void restore();

private:
  descriptor inbox_;
};

} // namespace penstock::tools::launcher
