// What a stage replica decides: its inboxes, its place in the schedule, the versions it holds. No actor, thread or
// clock.
#pragma once

#include "actors/core/inbox.hpp"
#include "actors/core/stage_job.hpp"
#include "actors/core/stretch.hpp"
#include "planner/worker_cursor.hpp"

#include <variant>

namespace penstock::actors {

/// Where a stage replica stands in its plan epoch.
struct stage_place {
  std::int64_t plan_epoch = 0;
  int stage = 0;
  int replica = 0;
  int replicas = 1;
  bool is_first = false;
  bool is_last = false;
  bool recomputes = false;
  bool sends_buckets = false; ///< its gradients leave while the last backward still runs
  bool stops_on_nonfinite = true;
  std::uint64_t seed = 0;
  std::int64_t source_credit = 1; ///< no more is ever admitted: the bound of every inbox
  std::shared_ptr<const segment> layers;
};
/// "stage 1", "stage 1 replica 0".
std::string name_of(const stage_place& place);

/// What a stage replica wants done, in this order.
struct compute {
  std::shared_ptr<stage_job> job; ///< on its stream; comes back to stage_core::completed
};
struct send_activation {
  activation_msg message; ///< to the next stage
};
struct send_gradient {
  gradient_msg message; ///< to the stage before
};
struct send_loss {
  loss_msg message;
};
struct return_credit {
  credit_msg message; ///< to the source that admitted it
};
struct give_gradients {
  gradient_share_msg share; ///< to the optimizer
};
struct part_is_done {}; ///< all that the stretch asks of it
using stage_effect =
    std::variant<compute, send_activation, send_gradient, send_loss, return_credit, give_gradients, part_is_done>;
using stage_effects = std::vector<stage_effect>;

/// Coordinator to a stage replica: an evaluation begins; the weights come from the optimizer.
struct begin_evaluation_msg {
  std::int64_t stretch = 0;
  std::vector<tensor> states; ///< BatchNorm statistics to use
};

/// Owns the replica's BatchNorm statistics and the versions that its forwards captured. Throws penstock::error for
/// messages that do not belong to this run, and for a loss that is not finite.
class stage_core final : public planner::readiness {
public:
  stage_core(stage_place place, std::vector<tensor> states);

  [[nodiscard]] stage_effects on(activation_msg m);
  [[nodiscard]] stage_effects on(gradient_msg m);
  [[nodiscard]] stage_effects on(labels_msg m);
  [[nodiscard]] stage_effects on(weights_msg m);
  [[nodiscard]] stage_effects on(const begin_training_msg& m);
  [[nodiscard]] stage_effects on(const end_after_msg& m);
  [[nodiscard]] stage_effects on(begin_evaluation_msg m);
  /// The job is done; its results are in it.
  [[nodiscard]] stage_effects completed(stage_job& job);

  const stage_place& place() const { return place_; }
  /// What the replica waits for; none while it computes or has nothing left to do.
  std::optional<planner::blocked_action> waits_for() const;
  std::string describe_wait() const;
  /// Messages held, for the trace.
  std::size_t activations_held() const { return activations_.size(); }
  std::size_t gradients_held() const { return gradients_in_.size(); }
  std::int64_t first_minibatch() const { return run_ ? run_->first_minibatch : 0; }
  /// For a copy, at a drain: the statistics are nobody else's to write.
  const std::vector<tensor>& states() const { return *states_; }

  bool has_input(const planner::action& a) const override;
  bool has_gradient(const planner::action& a) const override;
  bool has_version(int stage, std::int64_t version) const override;

private:
  using key = keyed_inbox<activation_msg>::key;
  // Work is handed over ahead of its predecessor's completion, one deep: where only stream order matters the stream
  // never idles for a round trip through the mailbox.
  static constexpr int computed_ahead = 2;

  void check_key(const message_key& k) const;
  template <class Message>
  stage_effects put(keyed_inbox<Message>& inbox, Message m, const char* what);
  void restart(std::int64_t stretch, phase mode);
  void pump(stage_effects& out);
  void pump_training(stage_effects& out);
  void pump_evaluation(stage_effects& out);
  void begin(const planner::action& a, stage_effects& out);
  void begin_forward(const planner::action& a, stage_effects& out);
  void begin_backward(const planner::action& a, stage_effects& out);
  void contribute(const planner::action& a, stage_effects& out);
  void hand_over(std::shared_ptr<stage_job> job, stage_effects& out);
  void finish_forward(stage_job& job, stage_effects& out) const;
  void finish_backward(stage_job& job, stage_effects& out) const;
  activation_msg activation_of(stage_job& job) const;
  void take(weights_msg m);
  void drop_versions();
  std::int64_t holds_from() const;
  message_key key_of(const planner::action& a) const;
  std::size_t bound() const { return static_cast<std::size_t>(place_.source_credit); }
  bool keeps_versions_for_backward() const;

  stage_place place_;
  std::string who_;
  std::shared_ptr<std::vector<tensor>> states_;
  std::int64_t stretch_ = 0;
  stretch_ptr run_; // while training
  planner::worker_cursor cursor_;
  bool is_done_ = true; // and has said so
  keyed_inbox<activation_msg> activations_;
  keyed_inbox<gradient_msg> gradients_in_;
  keyed_inbox<labels_msg> labels_;
  struct in_flight {
    std::shared_ptr<microbatch_record> record;
    std::int64_t version = 0; // captured, counted from the drain
  };
  std::map<key, in_flight> records_;
  std::map<std::int64_t, weights_ptr> versions_;                           // by version since the drain
  std::int64_t first_version_ = 0;                                         // at the drain
  std::vector<weights_msg> early_;                                         // of a stretch that has not begun here
  std::map<std::int64_t, std::shared_ptr<std::vector<tensor>>> gradients_; // by update of the stretch
  bool evaluates_ = false;
  std::shared_ptr<std::vector<tensor>> evaluation_states_;
  int computing_ = 0; // jobs handed over
};

} // namespace penstock::actors
