// Start, drain, evaluation, clipping, failure and the watchdog of one run.
#include "actors/coordinator_actor.hpp"

#include "actors/source_actor.hpp"
#include "actors/update_actors.hpp"
#include "kernels/check.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <chrono>
#include <cmath>

namespace penstock::actors {

namespace {

using clock = std::chrono::steady_clock;

class coordinator {
public:
  void start(caf::event_based_actor* self) { self_ = self; }
  void start_run(const start_run_msg& m);
  void train(const train_msg& m);
  void drain();
  void admitted(const admitted_msg& m);
  void part_done();
  void finish_segment();
  void finish_evaluation();
  void norm(const norm_msg& m);
  void evaluate(const start_evaluation_msg& m);
  void evaluated(const evaluated_msg& m);
  void failed(const failure_msg& m);
  void tick();
  void described(const wait_description_msg& m);
  void stop();

private:
  void spawn_all(const planner::schedule& dealing);
  neighbour_side side_of(int stage, const planner::schedule& dealing) const;
  void connect_stages(const planner::schedule& dealing);
  void fail(const std::string& text);
  std::vector<caf::actor> everyone() const;
  pipeline& parts() { return context_->services.parts; }

  caf::event_based_actor* self_ = nullptr;
  context_ptr context_;
  std::vector<std::vector<stage_actor>> stages_;
  std::vector<caf::actor> groups_;
  std::vector<caf::actor> optimizers_;
  std::vector<neighbour_actor> cut_actors_; // per cut; the user's layer actor or nothing
  std::vector<caf::actor> loaders_;
  caf::actor source_;
  caf::actor metrics_;
  caf::actor reply_to_;

  planner::schedule dealing_;
  segment_run_ptr run_;
  bool draining_ = false;
  bool failed_ = false;
  std::size_t parts_ = 0;
  std::size_t parts_done_ = 0;
  bool working_ = false;
  bool evaluating_ = false;
  std::optional<evaluated_msg> evaluation_;
  std::vector<std::vector<double>> squares_; // of one update, per stage
  std::size_t squares_in_ = 0;

  std::int64_t seen_progress_ = -1;
  clock::time_point progress_at_ = clock::now();
  bool asking_ = false;
  clock::time_point asked_at_;
  std::vector<std::string> descriptions_;
};

// -- start --------------------------------------------------------------------------

void coordinator::start_run(const start_run_msg& m) {
  context_ = m.context;
  dealing_ = m.dealing;
  spawn_all(m.dealing);
  connect_stages(m.dealing);
  self_->delayed_send(self_, std::chrono::milliseconds(100), tick_msg{});
}

void coordinator::spawn_all(const planner::schedule& dealing) {
  auto& system = self_->system();
  source_ = spawn_source(system, context_);
  metrics_ = spawn_metrics(system, context_);
  for (int i = 0; i < std::max(1, context_->services.options.loader_threads); ++i)
    loaders_.push_back(spawn_loader(system, context_, source_));
  for (const auto& s : parts().stages) {
    stages_.emplace_back();
    for (int r = 0; r < static_cast<int>(s.replicas.size()); ++r)
      stages_.back().push_back(spawn_stage(system, context_, s.index, r));
    parts_ += s.replicas.size() + 1;
    optimizers_.push_back(spawn_optimizer(system, context_, s.index));
    groups_.push_back(spawn_replica_group(system, context_, s.index, optimizers_.back()));
    caf::anon_send(optimizers_.back(), connect_optimizer_msg{stages_.back()});
  }
  parts_ += 2; // the source and the metrics actor
  check(dealing.stages.size() == stages_.size(), "the schedule has another number of stages");
}

neighbour_side coordinator::side_of(int stage, const planner::schedule& dealing) const {
  neighbour_side side;
  for (const auto& s : stages_[static_cast<std::size_t>(stage)])
    side.replicas.push_back(s);
  const auto replicas = static_cast<std::int64_t>(side.replicas.size());
  side.deal = [dealing, stage, replicas](const message_key& k) {
    if (k.mode == phase::evaluation) return static_cast<int>(k.since_drain % replicas);
    return planner::replica_of(dealing, stage, k.since_drain, k.microbatch);
  };
  return side;
}

void coordinator::connect_stages(const planner::schedule& dealing) {
  const int n = static_cast<int>(stages_.size());
  std::vector<neighbour_side> left(stages_.size());  // what stage s sends gradients to
  std::vector<neighbour_side> right(stages_.size()); // what stage s sends activations to
  for (int s = 0; s + 1 < n; ++s) {
    const auto su = static_cast<std::size_t>(s);
    right[su] = side_of(s + 1, dealing);
    left[su + 1] = side_of(s, dealing);
    const auto& cut_after = parts().net->layers()[static_cast<std::size_t>(parts().stages[su].layers->last() - 1)].name;
    for (const auto& factory : context_->services.inputs.layer_actors) {
      if (factory->after_layer() != cut_after) continue;
      auto between = factory->spawn(self_->system(), {left[su + 1], right[su]});
      cut_actors_.push_back(between);
      const neighbour_side only{{between}, [](const message_key&) { return 0; }};
      right[su] = left[su + 1] = only;
    }
  }
  for (int s = 0; s < n; ++s)
    for (const auto& replica : stages_[static_cast<std::size_t>(s)])
      caf::anon_send(replica,
                     connect_stage_msg{left[static_cast<std::size_t>(s)], right[static_cast<std::size_t>(s)], source_,
                                       metrics_, groups_[static_cast<std::size_t>(s)], dealing.source_credit()});
  connect_source_msg links{side_of(0, dealing), stages_.back(), side_of(n - 1, dealing).deal, loaders_};
  caf::anon_send(source_, std::move(links));
}

// -- training --------------------------------------------------------------------------

void coordinator::train(const train_msg& m) {
  run_ = m.run;
  reply_to_ = m.reply_to;
  parts_done_ = 0;
  draining_ = false;
  working_ = true;
  progress_at_ = clock::now();
  for (auto& s : parts().stages) {
    const auto i = static_cast<std::size_t>(s.index);
    for (const auto& replica : stages_[i])
      caf::anon_send(replica, begin_segment_msg{run_, s.weights});
    caf::anon_send(optimizers_[i], begin_segment_msg{run_, nullptr});
  }
  caf::anon_send(metrics_, begin_segment_msg{run_, nullptr});
  caf::anon_send(source_, begin_segment_msg{run_, nullptr}); // last: nothing is admitted before all know the plan
}

void coordinator::drain() {
  if (!working_ || draining_ || !run_) return;
  draining_ = true;
  caf::anon_send(source_, stop_admitting_msg{});
}

void coordinator::admitted(const admitted_msg& m) {
  if (!run_ || m.minibatches >= run_->plan.minibatches) return;
  auto shorter = std::make_shared<segment_run>(*run_);
  shorter->request.minibatches = m.minibatches;
  shorter->plan = planner::make_schedule(shorter->request);
  run_ = shorter;
  for (const auto& stage : stages_)
    for (const auto& replica : stage)
      caf::anon_send(replica, truncate_segment_msg{run_});
  for (const auto& o : optimizers_)
    caf::anon_send(o, truncate_segment_msg{run_});
  caf::anon_send(metrics_, truncate_segment_msg{run_});
  caf::anon_send(source_, truncate_segment_msg{run_});
}

void coordinator::part_done() {
  ++parts_done_;
  if (evaluating_)
    finish_evaluation();
  else if (working_ && parts_done_ == parts_)
    finish_segment();
}

void coordinator::finish_segment() {
  working_ = false;
  const auto trained = run_->plan.minibatches;
  run_.reset();
  caf::anon_send(reply_to_, segment_done_msg{trained});
}

// The norm is formed over all stages in stage order, parameter by parameter, so that it does not depend on the cuts.
void coordinator::norm(const norm_msg& m) {
  squares_.resize(stages_.size());
  squares_[static_cast<std::size_t>(m.stage)] = m.squares;
  if (++squares_in_ < stages_.size()) return;
  squares_in_ = 0;
  double sum = 0;
  for (const auto& stage : squares_)
    for (const auto q : stage)
      sum += q;
  const auto factor = clip_factor(std::sqrt(sum), context_->services.options.clip_norm);
  for (const auto& o : optimizers_)
    caf::anon_send(o, clip_msg{m.group, factor});
}

// -- evaluation ------------------------------------------------------------------------

void coordinator::evaluate(const start_evaluation_msg& m) {
  reply_to_ = m.reply_to;
  working_ = evaluating_ = true;
  parts_done_ = 0;
  progress_at_ = clock::now();
  constexpr std::int64_t segment = -1; // evaluations lie between segments
  memory_pool pool;
  for (auto& s : parts().stages) {
    const auto mean = mean_states(s, pool);
    std::vector<tensor> states;
    for (const auto& st : s.layers->states())
      states.push_back(mean.at(st.name));
    for (const auto& replica : stages_[static_cast<std::size_t>(s.index)])
      caf::anon_send(replica, begin_evaluation_msg{segment, s.weights, states});
  }
  evaluate_msg start{segment, m.data, m.batch, dealing_.source_credit()};
  caf::anon_send(metrics_, start);
  caf::anon_send(source_, start);
}

void coordinator::evaluated(const evaluated_msg& m) {
  evaluation_ = m;
  finish_evaluation();
}

// The total is there and the source has its credits back, so that training finds the pipeline empty.
void coordinator::finish_evaluation() {
  if (!evaluation_ || parts_done_ < 1) return;
  working_ = evaluating_ = false;
  caf::anon_send(reply_to_, *evaluation_);
  evaluation_.reset();
}

// -- failure ------------------------------------------------------------------------------

void coordinator::fail(const std::string& text) {
  if (failed_) return; // the first cause is the one that counts
  failed_ = true;
  working_ = false;
  if (reply_to_) caf::anon_send(reply_to_, failure_msg{"", text});
}

void coordinator::failed(const failure_msg& m) {
  const bool tagged = m.what.starts_with("[");
  fail(tagged ? m.what : "[" + m.who + "] " + m.what);
}

void coordinator::tick() {
  self_->delayed_send(self_, std::chrono::milliseconds(100), tick_msg{});
  const auto now = clock::now();
  const auto progress = context_->progress.load();
  if (progress != seen_progress_ || !working_) {
    seen_progress_ = progress;
    progress_at_ = now;
    asking_ = false;
    return;
  }
  const auto stall = std::chrono::duration<double>(context_->services.options.stall_seconds);
  if (!asking_ && now - progress_at_ > stall) {
    asking_ = true;
    asked_at_ = now;
    descriptions_.clear();
    caf::anon_send(source_, describe_wait_msg{});
    for (const auto& stage : stages_)
      for (const auto& replica : stage)
        caf::anon_send(replica, describe_wait_msg{});
  } else if (asking_ && now - asked_at_ > std::chrono::milliseconds(400)) {
    std::string graph;
    for (const auto& d : descriptions_)
      graph += (graph.empty() ? "" : "; ") + d;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%g", context_->services.options.stall_seconds);
    fail("[stall] no progress for " + std::string(seconds) + " s: " + graph);
  }
}

void coordinator::described(const wait_description_msg& m) {
  if (asking_) descriptions_.push_back(m.text);
}

std::vector<caf::actor> coordinator::everyone() const {
  std::vector<caf::actor> all{source_, metrics_};
  all.insert(all.end(), loaders_.begin(), loaders_.end());
  all.insert(all.end(), groups_.begin(), groups_.end());
  all.insert(all.end(), optimizers_.begin(), optimizers_.end());
  for (const auto& stage : stages_)
    for (const auto& replica : stage)
      all.push_back(caf::actor_cast<caf::actor>(replica));
  for (const auto& c : cut_actors_)
    all.push_back(caf::actor_cast<caf::actor>(c));
  return all;
}

void coordinator::stop() {
  if (context_)
    for (const auto& a : everyone())
      if (a) caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
  self_->quit();
}

caf::behavior coordinator_behavior(caf::stateful_actor<coordinator>* self) {
  auto& state = self->state;
  state.start(self);
  self->set_exit_handler([&state](caf::exit_msg&) { state.stop(); });
  const auto run = [self](auto body) {
    try {
      body();
    } catch (const std::exception& e) {
      self->state.failed({"coordinator", e.what()});
    }
  };
  return {
      [=, &state](const start_run_msg& m) { run([&] { state.start_run(m); }); },
      [=, &state](const train_msg& m) { run([&] { state.train(m); }); },
      [=, &state](const drain_msg&) { run([&] { state.drain(); }); },
      [=, &state](const admitted_msg& m) { run([&] { state.admitted(m); }); },
      [=, &state](const part_done_msg&) { run([&] { state.part_done(); }); },
      [=, &state](const norm_msg& m) { run([&] { state.norm(m); }); },
      [=, &state](const start_evaluation_msg& m) { run([&] { state.evaluate(m); }); },
      [=, &state](const evaluated_msg& m) { run([&] { state.evaluated(m); }); },
      [=, &state](const failure_msg& m) { run([&] { state.failed(m); }); },
      [=, &state](const wait_description_msg& m) { run([&] { state.described(m); }); },
      [=, &state](const tick_msg&) { run([&] { state.tick(); }); },
  };
}

} // namespace

caf::actor spawn_coordinator(caf::actor_system& system) {
  return system.spawn(coordinator_behavior);
}

} // namespace penstock::actors
