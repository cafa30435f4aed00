// The other processes of a run, as the runtime sees them.
#pragma once

#include "actors/policy/placement.hpp"
#include "kernels/check.hpp"
#include "transport/control/control_plane.hpp"
#include "transport/endpoint.hpp"

namespace penstock::actors {

/// One rank's way to the others. Both planes outlive the run.
struct job {
  transport::control_plane& control;
  transport::endpoint& data;
  /// Longest wait for another rank that has nothing to compute meanwhile.
  std::chrono::milliseconds patience = std::chrono::minutes(5);

  int rank() const { return control.rank(); }
  int size() const { return control.size(); }
};

/// The run ended because the job did: what() is the first cause, which rank 0 tells the user.
class job_ended : public error {
public:
  explicit job_ended(transport::job_failure cause) : error(cause.text), cause_(std::move(cause)) {}
  const transport::job_failure& cause() const { return cause_; }

private:
  transport::job_failure cause_;
};

} // namespace penstock::actors
