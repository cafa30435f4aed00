// All that can be said of one stage's actions without the other stages.
#pragma once

#include "planner/schedule.hpp"
#include "planner/sliding.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::planner {

/// Each replica's actions are shown in their order, the replicas in any. Faults are one line that names the action. Its
/// memory grows with what is in flight (of orders that deal in turn), not with the minibatches.
class stage_checker {
public:
  stage_checker(const schedule& s, int stage);

  std::optional<std::string> check(int replica, const action& a);
  /// After a replica's last action.
  std::optional<std::string> check_end(int replica) const;
  /// After all of them.
  std::optional<std::string> check_nothing_is_missing() const;

  /// Numbers that decide what is a fault from here on but for the end, counted from `origin`; see generator.
  void append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const;

private:
  using fault = std::optional<std::string>;
  enum class pass : std::uint8_t { none, forward, input_gradient, done };
  struct progress {
    pass reached = pass::none;
    std::int64_t version = 0; // that the forward read
  };
  struct replica_state {
    sliding<progress> microbatches; // by the replica's own count
    std::int64_t held = 0;
    std::int64_t delayed = 0; // weight gradients whose input gradient is there
    std::int64_t updates = 0;
    std::int64_t backwards = 0;
  };

  std::string here(int replica, const action& a) const { return describe_place(number_, replica) + ": " + describe(a); }
  std::int64_t index(const action& a) const {
    const auto running = a.minibatch * schedule_.microbatches + a.microbatch;
    return stage_.replicas == 1 ? running : running / stage_.replicas;
  }
  static progress progress_of(const replica_state& state, std::int64_t index);
  fault check_frozen(int replica, const action& a);
  fault check_forward(int replica, const action& a);
  fault check_backward(int replica, const action& a);
  fault check_order(int replica, const action& a, pass reached) const;
  fault check_delay(int replica, const action& a) const;
  fault check_update(int replica, const action& a);
  fault check_version_is_written(int replica, const action& a) const;
  fault check_holdings(int replica, const action& backward) const;

  const schedule& schedule_;
  int number_;
  const stage_schedule& stage_;
  std::int64_t updates_wanted_;
  std::vector<replica_state> replicas_;
};

/// "1 minibatch", "2 micro-batches".
std::string count_of(std::int64_t n, const std::string& noun);

} // namespace penstock::planner
