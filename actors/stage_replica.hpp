// A stage replica's state: its inboxes, its place in the schedule, the versions it holds, and what its stream is doing.
#pragma once

#include "actors/actor_context.hpp"
#include "actors/ranks/bucket_plan.hpp"
#include "actors/stage_actor.hpp"
#include "actors/stage_inbox.hpp"
#include "actors/stage_job.hpp"
#include "actors/stage_work.hpp"
#include "planner/worker_cursor.hpp"

namespace penstock::actors {

/// What a stage actor's handlers call; of one actor, so of one thread at a time. Throws penstock::error for messages
/// that do not belong to this run, and what the work on its stream threw.
class stage_replica : public planner::readiness {
public:
  void start(stage_actor::pointer self, context_ptr context, int stage, int replica);
  const std::string& who() const { return who_; }
  actor_context& context() { return *context_; }

  void connect(const connect_stage_msg& m) { links_ = m; }
  void take(const activation_msg& m);
  void take(const gradient_msg& m);
  void take(const labels_msg& m);
  void take(const weights_msg& m);
  void begin(const begin_segment_msg& m);
  void truncate(const truncate_segment_msg& m);
  void begin(const begin_evaluation_msg& m);
  void completed(const computed_msg& m);
  std::string describe_wait() const;

  bool has_input(const planner::action& forward) const override {
    return has_input(forward.minibatch, forward.microbatch);
  }
  bool has_gradient(const planner::action& backward) const override;
  bool has_version(int /*stage*/, std::int64_t version) const override { return versions_.contains(version); }

private:
  // Work is posted ahead of its predecessor's completion, one deep: where only stream order matters the stream never
  // idles for a round trip through the mailbox.
  static constexpr int posted_ahead = 2;

  void restart_inboxes(phase mode);
  void pump();
  void pump_training();
  void pump_evaluation();
  void run(const planner::action& a);
  void run_forward(const planner::action& a);
  void run_backward(const planner::action& a);
  void contribute(const planner::action& a);
  bool has_input(std::int64_t minibatch, std::int32_t microbatch) const;
  std::function<void(int)> bucket_sender(std::int64_t group, const std::shared_ptr<std::vector<tensor>>& sum) const;
  void drop_versions();
  void post(std::shared_ptr<stage_job> job);
  void send_activation(stage_job& job);
  void finish_forward(stage_job& job);
  void finish_backward(stage_job& job);
  void finish_evaluation(stage_job& job);
  void return_credit(const message_key& key);
  void check_loss(const stage_job& job) const;
  void report_done();
  void check_key(const message_key& key) const;
  std::size_t bound() const { return static_cast<std::size_t>(links_.source_credit); } // no more is ever admitted
  template <class Message>
  void send_tensors(const neighbour_side& side, Message m, int peer);
  message_key key_of(const planner::action& a) const;

  stage_actor::pointer self_ = nullptr;
  context_ptr context_;
  stage_unit* unit_ = nullptr;
  replica_unit* own_ = nullptr;
  int replica_ = 0;
  std::string who_;
  connect_stage_msg links_;
  stage_tracer trace_;
  std::shared_ptr<stage_work> work_ = std::make_shared<stage_work>();

  segment_run_ptr run_;
  planner::worker_cursor cursor_;
  bool reported_done_ = true;
  keyed_inbox<activation_msg> activations_;
  keyed_inbox<gradient_msg> gradients_in_;
  keyed_inbox<labels_msg> labels_;
  std::map<keyed_inbox<activation_msg>::key, std::shared_ptr<microbatch_record>> records_;
  std::map<std::int64_t, weights_ptr> versions_; // by version since the drain
  std::int64_t base_version_ = 0;
  // Gradients by update group, summed so far. There are two under 2bw: backwards of the next minibatch begin before the
  // update of this one. The stream adds to a set while a backward of its group is posted.
  std::map<std::int64_t, std::shared_ptr<std::vector<tensor>>> gradients_;
  std::shared_ptr<const bucket_plan> buckets_; // where the stage's replicas are on several ranks
  int posted_ = 0;

  weights_ptr evaluation_weights_;
  std::int64_t segment_ = 0;
};

} // namespace penstock::actors
