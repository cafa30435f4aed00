// Jobs over real sockets whose ranks are threads of the test.
#pragma once

#include "transport/control/join.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace penstock::transport::test {

using planes = std::vector<std::unique_ptr<control_plane>>;

inline constexpr const char* job_password = "a secret of the tests";

/// Lines of a log, from any thread.
class log_lines {
public:
  std::function<void(const std::string&)> writer();
  std::vector<std::string> all() const;
  /// Waits until a line holds the text; false after ten seconds.
  bool wait_for(const std::string& text) const;

private:
  struct shared;
  std::shared_ptr<shared> self_ = make();
  static std::shared_ptr<shared> make();
};

/// A listening socket on a free port of 127.0.0.1, as `penstock launch` makes it, and launches that name it.
class test_job {
public:
  explicit test_job(int size);
  ~test_job();
  test_job(const test_job&) = delete;
  test_job& operator=(const test_job&) = delete;

  launch of(int rank);
  int port() const { return port_; }

  join_options options() const; ///< the secret; silence and patience 2 s, join deadline 10 s; the log goes to log
  log_lines log;

  /// All ranks join, each on a thread. Throws what the first of them threw.
  planes join_all();
  planes join_all(const join_options& all);
  /// What each rank's joining threw, by rank; "" when it did not. `change` adapts a rank's launch and options.
  std::vector<std::string> errors_of_joining(const std::function<void(int, launch&, join_options&)>& change);

private:
  int size_;
  int port_ = 0;
  int socket_ = -1;
};

/// Runs `act` as every rank, each on a thread, and rethrows what the first of them threw.
void on_all(const planes& ranks, const std::function<void(control_plane&)>& act);

/// What a penstock::error or usage_error said; "no error" if none was thrown.
std::string error_of(const std::function<void()>& act);

/// The failure of the job as that rank learns it, within ten seconds; empty text when it does not.
job_failure failure_at(control_plane& rank);

} // namespace penstock::transport::test
