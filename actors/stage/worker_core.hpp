// What a worker decides: its place in the schedule of all the stages that it hosts. No actor, thread or clock.
#pragma once

#include "actors/stage/stage_core.hpp"

namespace penstock::actors {

/// Coordinator to a worker: an evaluation begins; the weights come from the optimizers.
struct begin_evaluation_msg {
  std::int64_t stretch = 0;
  std::vector<std::vector<tensor>> states; ///< BatchNorm statistics to use, by the worker's stages
};

/// One order of actions over all of a worker's stages, each of which keeps what is its own. Throws penstock::error for
/// messages that do not belong to this run.
class worker_core final : public planner::readiness {
public:
  /// By the place's stages: BatchNorm statistics, and what was carried so far (carried_columns); none: nothing.
  worker_core(worker_place place, std::vector<std::vector<tensor>> states,
              std::vector<std::vector<tensor>> carried = {});
  worker_core(const worker_core&) = delete; // its stages know where its cursor is
  worker_core& operator=(const worker_core&) = delete;

  [[nodiscard]] worker_effects on(activation_msg m);
  [[nodiscard]] worker_effects on(gradient_msg m);
  [[nodiscard]] worker_effects on(inputs_msg m);
  [[nodiscard]] worker_effects on(weights_msg m);
  [[nodiscard]] worker_effects on(const begin_training_msg& m);
  [[nodiscard]] worker_effects on(const end_after_msg& m);
  [[nodiscard]] worker_effects on(begin_evaluation_msg m);
  /// The job is done; its results are in it.
  [[nodiscard]] worker_effects completed(stage_work& job);

  const worker_place& place() const { return place_; }
  const stage_core& stage(int number) const { return stages_[index_of(number)]; }
  /// What the worker waits for; none while it computes or has nothing left to do.
  std::optional<planner::blocked_action> waits_for() const;
  std::string describe_wait() const;
  std::int64_t first_minibatch() const { return run_ ? run_->first_minibatch : 0; }

  bool has_input(const planner::action& a) const override { return stage(a.stage).has_input(a); }
  bool has_gradient(const planner::action& a) const override { return stage(a.stage).has_gradient(a); }
  bool has_version(int number, std::int64_t version) const override { return stage(number).has_version(version); }

private:
  // Work is handed over ahead of its predecessor's completion, one deep: where only stream order matters the stream
  // never idles for a round trip through the mailbox.
  static constexpr int computed_ahead = 2;

  template <class Message>
  worker_effects put(Message m);
  std::size_t index_of(int number) const;
  stage_core& mine(int number) { return stages_[index_of(number)]; }
  void restart(bool evaluates);
  void pump(worker_effects& out);
  void pump_training(worker_effects& out);
  bool may_begin_now(const planner::action& a) const;
  void pump_evaluation(worker_effects& out);
  void begin(const planner::action& a, worker_effects& out);
  void hand_over(std::shared_ptr<stage_work> job, worker_effects& out);

  worker_place place_;
  std::string who_;
  planner::worker_cursor cursor_;
  std::vector<stage_core> stages_; // as the place has them
  stretch_ptr run_;                // while training
  bool evaluates_ = false;
  bool is_done_ = true; // and has said so
  int computing_ = 0;   // jobs handed over
};

} // namespace penstock::actors
