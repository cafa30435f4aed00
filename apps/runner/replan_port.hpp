// `--control`: where `penstock replan` asks a run to change its plan.
#pragma once

#include "actors/run/plan_wishes.hpp"
#include "apps/runner/plan_changes.hpp"
#include "transport/control/request_port.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace penstock::apps {

/// What `penstock replan` sends.
struct replan_request {
  std::string file; ///< for messages
  std::string plan; ///< its contents
  std::optional<std::int64_t> step;
};
inline constexpr const char* replan_topic = "replan";
std::string to_text(const replan_request& r);
/// Throws usage_error for bytes that to_text does not make.
replan_request replan_request_from(const std::string& text);

/// Listens from its making to its end, which refuses what has not taken place. Settles what is asked for, hands it to
/// the run, and says what became of it.
class replan_port {
public:
  using log_line = std::function<void(const std::string&)>; ///< any thread

  /// `first`: the plan that the run starts with. `wishes` and `settler` outlive it. `log` gets what was asked for and
  /// what became of it, `warn` who was turned away. Throws error where the port cannot be had.
  replan_port(const transport::launch& where, const transport::job_secret& secret, const change_settler& settler,
              planner::plan_ptr first, actors::plan_wishes& wishes, log_line log, log_line warn);
  ~replan_port();
  replan_port(const replan_port&) = delete;
  replan_port& operator=(const replan_port&) = delete;

  std::string address() const { return port_->address(); }
  void at_step(std::int64_t done) { done_ = done; } ///< any thread

private:
  void take(const transport::request& asked, const transport::request_port::responder& respond);
  void answer(const replan_request& asked, const planner::plan_ptr& plan, const std::string& refusal,
              const transport::request_port::responder& respond);
  planner::plan_ptr in_force() const;

  const change_settler& settler_;
  actors::plan_wishes& wishes_;
  log_line log_;
  std::atomic<std::int64_t> done_{0};
  mutable std::mutex mutex_;
  planner::plan_ptr now_; ///< guarded by mutex_: that new ones are settled against
  std::unique_ptr<transport::request_port> port_;
};

} // namespace penstock::apps
