// Joining a job: rank 0 listens, the others connect to it under TLS 1.3 with the job's secret.
#pragma once

#include "transport/control/control_plane.hpp"
#include "transport/control/secret.hpp"
#include "transport/launch/launch.hpp"

#include <memory>

namespace penstock::transport {

struct join_options {
  job_secret secret;
  /// Facts that must be equal on all ranks, compared at the start and named where they differ ("binary", "options",
  /// "library"). In order.
  std::vector<std::pair<std::string, std::string>> facts;
  std::chrono::milliseconds join_deadline = 60s; ///< until all ranks are there
  /// What rank 0 gives a connection to prove the secret and say who it is. A busy host may need some of it.
  std::chrono::milliseconds visitor_patience = 15s;
  /// How often this job has been made anew of what was left of it. Ranks of different generations do not mix: one that
  /// comes early tries again until rank 0 is of its own, one that comes late is refused and harms nobody.
  int generation = 0;
  std::chrono::milliseconds silence = 5s;      ///< a rank that says nothing for so long is lost
  std::function<void(const std::string&)> log; ///< warnings (refused strangers), on the network's thread; may be empty
};

/// Rendezvous. Rank 0 listens where the others can come from (open_door()) and keeps listening, since a stranger must
/// be refused and not ignored; the others try until the deadline. Throws penstock::error with one line: which rank
/// never came, which fact differs on which rank (both as job_failed), a secret that does not match, a port in use, a
/// name that nobody knows.
std::unique_ptr<control_plane> join_job(const launch& where, const join_options& options);

} // namespace penstock::transport
