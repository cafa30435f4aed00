// What a worker holds of one of its stages: inboxes, captured versions, gradients, statistics; and the work made of
// them. No actor, thread or clock.
#pragma once

#include "actors/run/stretch.hpp"
#include "actors/stage/inbox.hpp"
#include "actors/stage/worker_effects.hpp"
#include "actors/stage/worker_place.hpp"
#include "planner/worker_cursor.hpp"

namespace penstock::actors {

/// Of a job that is complete: throws penstock::error where a training loss must be finite and is not.
void require_finite_loss(const stage_place& place, const stage_work& job);

/// Owns one replica's BatchNorm statistics and the versions that its forwards captured. What it does next is its
/// worker's to say. Throws penstock::error for messages that do not belong to this run.
class stage_core {
public:
  /// `cursor` is the worker's, and outlives it.
  stage_core(stage_place place, const planner::worker_cursor& cursor, std::vector<tensor> states,
             std::vector<tensor> carried = {});

  void put(activation_msg m);
  void put(gradient_msg m);
  void put(inputs_msg m);
  /// False where its stretch has not begun here: it waits for that.
  bool take(weights_msg m);

  void begin_training(const stretch_ptr& run);
  void begin_evaluation(std::int64_t stretch, std::vector<tensor> states);

  bool has_input(const planner::action& a) const;
  bool has_gradient(const planner::action& a) const;
  bool has_version(std::int64_t version) const { return versions_.contains(version); }

  /// The work of an action that may begin.
  std::shared_ptr<stage_work> begin_forward(const planner::action& a);
  std::shared_ptr<stage_work> begin_backward(const planner::action& a);
  /// Null where nothing is there to evaluate, or to evaluate with.
  std::shared_ptr<stage_work> next_evaluation();
  /// Its updates are computed on its own stream alone, which keeps the order: gradients leave when the work that
  /// completes them is handed over.
  bool gives_behind() const { return place_.replicas == 1; }
  /// Where updates lag: each backward is the only one here that adds to its update, and its gradients leave with it,
  /// not at the update's place in the order.
  bool gives_early() const;
  /// True while a backward here adds, or has added, to that update: then its gradients leave by themselves.
  bool has_begun_group(std::int64_t group) const { return group < groups_begun_; }
  /// The gradients of an update, which are complete, or will be when what is handed over is done.
  give_gradients contribute(std::int64_t group);
  /// Those of a backward that was handed over just now, or is done, where they leave early and at that moment.
  std::optional<give_gradients> give_with(const stage_work& job);
  std::optional<give_gradients> give_after(const stage_work& job);
  /// Versions that no later action looks up are let go; what a forward captured stays with its record.
  void drop_versions();
  /// Passes on the results.
  void finish(stage_work& job, worker_effects& out) const;

  const stage_place& place() const { return place_; }
  const std::string& name() const { return who_; }
  std::size_t activations_held() const { return activations_.size(); }
  std::size_t gradients_held() const { return gradients_in_.size(); }
  /// For a copy, at a drain: the statistics are nobody else's to write.
  const std::vector<tensor>& states() const { return *states_; }
  const std::shared_ptr<carried_columns>& carried() const { return carried_; }
  /// As the run counts it.
  std::int64_t absolute_version(std::int64_t since_drain) const { return first_version_ + since_drain; }

private:
  using key = keyed_inbox<activation_msg>::key;

  void check_key(const message_key& k) const;
  void take_arguments(const key& k, stage_work& job);
  void restart(std::int64_t stretch, phase mode);
  void add_to_update(const planner::action& a, stage_work& job);
  give_gradients give_of(const stage_work& job);
  void adopt(weights_msg m);
  void adopt_early();
  void finish_forward(stage_work& job, worker_effects& out) const;
  void finish_backward(stage_work& job, worker_effects& out) const;
  activation_msg activation_of(stage_work& job) const;
  std::int64_t holds_from() const;
  message_key key_of(const planner::action& a) const;
  static message_key for_stage(message_key key, int stage);
  std::size_t bound() const { return static_cast<std::size_t>(place_.source_credit); }
  bool keeps_versions_for_backward() const;

  stage_place place_;
  std::string who_;
  const planner::worker_cursor& cursor_;
  std::shared_ptr<std::vector<tensor>> states_;
  std::shared_ptr<carried_columns> carried_;
  std::int64_t stretch_ = 0;
  bool has_begun_ = false;
  stretch_ptr run_; // while training
  keyed_inbox<activation_msg> activations_;
  keyed_inbox<gradient_msg> gradients_in_;
  keyed_inbox<inputs_msg> fed_;
  struct in_flight {
    std::shared_ptr<microbatch_record> record; // until all of its backward has begun
    std::int64_t version = 0;                  // captured, counted from the drain
  };
  std::map<key, in_flight> records_;
  // Versions that backwards on another stream than the updates' read, counted from the drain.
  std::map<key, std::int64_t> in_backward_;
  std::int64_t groups_begun_ = 0;                // updates that a backward here adds to
  std::map<std::int64_t, weights_ptr> versions_; // by version since the drain
  std::int64_t first_version_ = 0;               // at the drain
  std::vector<weights_msg> early_;               // of a stretch that has not begun here
  struct group_sum {
    gradients_ptr gradients;
    bool counts = false; // something of its minibatch does
  };
  std::map<std::int64_t, group_sum> gradients_; // by update of the stretch
  std::shared_ptr<std::vector<tensor>> evaluation_states_;
  std::shared_ptr<carried_columns> evaluation_carried_;
  std::int64_t next_evaluated_ = 0; // batches that continue each other keep their order
};

} // namespace penstock::actors
