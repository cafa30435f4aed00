// Joins the job that this process belongs to, and keeps its promise that nobody waits for ever.
#pragma once

#include "actors/ranks/job.hpp"
#include "apps/runner/options.hpp"
#include "apps/runner/shrink.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

namespace penstock::apps {

/// Who this process is, by its flags and variables.
transport::launch find_launch(const job_options& options);

class app_job {
public:
  /// Binds this process to its share of the cores, meets the others (same program, same options), and connects the data
  /// plane. `shared`: what must be equal everywhere, by name. `warn` gets lines for stderr. Throws usage_error and penstock::error.
  app_job(const job_options& options, std::span<const std::pair<std::string, std::string>> shared,
          transport::launch where, const std::function<void(const std::string&)>& warn);
  ~app_job();
  app_job(const app_job&) = delete;
  app_job& operator=(const app_job&) = delete;

  const actors::job& ranks() const { return *ranks_; }
  bool is_first() const { return where_.rank == 0; }
  /// One line for the log: who is where, and how tensors travel to them.
  std::vector<std::string> description() const;

  /// Throws penstock::error that names the rank whose value of `what` differs from rank 0's.
  void compare(const std::string& what, const std::string& value);

  /// Tells the others why this process ends; true when rank 0 will tell the user.
  bool fail(const std::string& why);
  /// The run is over in order, or has failed, when the others are not waited for. Throws penstock::error.
  void leave();

  /// The pipeline that is run, for --on-loss shrink; `planned_anew`: it can be sought again for fewer processes.
  void runs(const actors::placement& where, bool planned_anew);
  /// When the job has lost a process and goes on without it: starts this one anew and does not return.
  void go_on_without_lost();

private:
  void connect(const job_options& options, const std::array<std::byte, 16>& token);
  void watch();

  transport::launch where_;
  std::unique_ptr<transport::control_plane> control_;
  std::unique_ptr<transport::endpoint> data_;
  std::unique_ptr<actors::job> ranks_;
  bool shrinks_ = false;
  bool has_failed_ = false;
  restart_recipe recipe_;
  std::mutex mutex_; // what follows
  std::optional<actors::placement> placement_;
  bool planned_anew_ = false;
  std::atomic<bool> over_{false};
  std::thread watcher_;
};

} // namespace penstock::apps
