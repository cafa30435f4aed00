// Joins the job that this process belongs to, and keeps its promise that nobody waits for ever.
#pragma once

#include "actors/ranks/job.hpp"
#include "apps/runner/options.hpp"
#include "apps/runner/shrink.hpp"
#include "transport/control/secret.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

namespace penstock::apps {

/// Who this process is, by its flags and variables.
transport::launch find_launch(const job_options& options);
/// For the log: "started by torchrun", and which other launcher says something else that is not used.
std::string started_by(const transport::launch& where);

class app_job {
public:
  /// Binds this process to its share of the cores, meets the others (same program, same options), and connects the data
  /// plane. `shared`: what must be equal everywhere, by name. `warn` gets lines for stderr. Throws usage_error and
  /// penstock::error. May start this process anew, as go_on_without_lost().
  app_job(const job_options& options, std::span<const std::pair<std::string, std::string>> shared,
          transport::launch where, const std::function<void(const std::string&)>& warn);
  ~app_job();
  app_job(const app_job&) = delete;
  app_job& operator=(const app_job&) = delete;

  const actors::job& ranks() const { return *ranks_; }
  bool is_first() const { return where_.rank == 0; }
  const transport::job_secret& secret() const { return secret_; }
  /// Lines for the log: who is where, and how tensors travel between them. Only on rank 0.
  std::vector<std::string> description() const;

  /// Throws penstock::error that names the rank whose value of `what` differs from rank 0's.
  void compare(const std::string& what, const std::string& value);

  /// Tells the others of a signal that reached this process, which may be the only one; more than once is once. Done by
  /// itself within moments.
  void pass_on_signal();
  /// Tells the others why this process ends; true when rank 0 will tell the user.
  bool fail(const std::string& why);
  /// What this process ends with once the job has failed: `own` where the failure is this rank's, else what the
  /// launcher wants of those that follow.
  int code_of_failure(int own) const;
  /// The run is over in order, or has failed, when the others are not waited for. Throws penstock::error.
  void leave();

  /// When the job has lost processes and goes on without them (--on-loss shrink): starts this one anew and does not
  /// return, unless the system refuses or a signal has asked for the end: then the signal's exit code, else 0.
  int go_on_without_lost();

private:
  void connect(const job_options& options, const std::array<std::byte, 16>& token);
  std::string devices_of(const job_options& options);
  void watch();
  void await_cause(std::chrono::milliseconds patience) const;
  int go_on_without(const transport::job_failure& cause);

  transport::launch where_;
  transport::job_secret secret_;
  std::unique_ptr<transport::control_plane> control_;
  std::unique_ptr<transport::endpoint> data_;
  std::unique_ptr<actors::job> ranks_;
  bool shrinks_ = false;
  bool has_failed_ = false;
  std::vector<std::string> routes_;  ///< of each rank to each, packed
  std::vector<std::string> remarks_; ///< about them
  restart_recipe recipe_;
  std::mutex going_on_; // one thread alone starts anew
  std::atomic<bool> over_{false};
  std::atomic<bool> signal_passed_on_{false};
  std::thread watcher_;
};

/// Of this process in the job; null: it is the only one.
actors::job_place place_in(const app_job* job);

} // namespace penstock::apps
