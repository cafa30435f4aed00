// What a worker does with a message, and what its schedule lets it do next.
#include "actors/stage/worker_core.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <utility>

namespace penstock::actors {

worker_core::worker_core(worker_place place, std::vector<std::vector<tensor>> states,
                         std::vector<std::vector<tensor>> carried)
    : place_(std::move(place)), who_(name_of(place_)) {
  carried.resize(place_.stages.size());
  check(!place_.stages.empty() && states.size() == place_.stages.size(), "a worker has the states of its stages");
  stages_.reserve(place_.stages.size());
  for (std::size_t i = 0; i < states.size(); ++i)
    stages_.emplace_back(place_.stages[i], cursor_, std::move(states[i]), std::move(carried[i]));
}

std::size_t worker_core::index_of(int number) const {
  for (std::size_t i = 0; i < place_.stages.size(); ++i)
    if (place_.stages[i].stage == number) return i;
  throw error("[message] a message for stage " + std::to_string(number) + " came to " + who_);
}

// -- what comes in -------------------------------------------------------------

template <class Message>
worker_effects worker_core::put(Message m) {
  mine(m.key.stage).put(std::move(m));
  worker_effects out;
  pump(out);
  return out;
}

worker_effects worker_core::on(activation_msg m) {
  return put(std::move(m));
}
worker_effects worker_core::on(gradient_msg m) {
  return put(std::move(m));
}
worker_effects worker_core::on(inputs_msg m) {
  return put(std::move(m));
}

worker_effects worker_core::on(weights_msg m) {
  worker_effects out;
  if (mine(m.stage).take(std::move(m))) pump(out);
  return out;
}

void worker_core::restart(bool evaluates) {
  check(computing_ == 0, "a stretch began before the one before was over");
  evaluates_ = evaluates;
  run_.reset();
}

worker_effects worker_core::on(const begin_training_msg& m) {
  restart(false);
  run_ = m.run;
  cursor_ = planner::worker_cursor(run_->schedule, {place_.position, place_.replica});
  is_done_ = false;
  for (auto& s : stages_)
    s.begin_training(run_);
  worker_effects out;
  pump(out);
  return out;
}

worker_effects worker_core::on(const end_after_msg& m) {
  worker_effects out;
  if (!run_ || m.stretch != run_->number) return out; // an evaluation is cut at its source
  cursor_.end_after(m.minibatches);
  for (auto& s : stages_)
    s.drop_versions();
  pump(out);
  return out;
}

worker_effects worker_core::on(begin_evaluation_msg m) {
  check(m.states.size() == stages_.size(), "a worker has the states of its stages");
  restart(true);
  for (std::size_t i = 0; i < stages_.size(); ++i)
    stages_[i].begin_evaluation(m.stretch, std::move(m.states[i]));
  worker_effects out;
  pump(out);
  return out;
}

// -- what happens next -----------------------------------------------------------

void worker_core::pump(worker_effects& out) {
  if (evaluates_)
    pump_evaluation(out);
  else if (run_)
    pump_training(out);
}

void worker_core::pump_training(worker_effects& out) {
  while (const auto a = cursor_.next(*this)) {
    if (!may_begin_now(*a)) return;
    cursor_.begin(*a);
    begin(*a, out);
    mine(a->stage).drop_versions();
  }
  if (computing_ > 0 || is_done_ || !cursor_.finished()) return;
  is_done_ = true;
  out.emplace_back(part_is_done{});
}

// An update is no work of this worker's. A gradient may leave only when the work that adds to it is done, but where
// that does not matter: the update goes onto the same stream, or lags and has gone with its backward.
bool worker_core::may_begin_now(const planner::action& a) const {
  if (a.kind != planner::action_kind::update) return computing_ < computed_ahead;
  const auto& of = stage(a.stage);
  return computing_ == 0 || of.gives_behind() || (of.gives_early() && computing_ < computed_ahead);
}

void worker_core::begin(const planner::action& a, worker_effects& out) {
  auto& of = mine(a.stage);
  if (a.kind == planner::action_kind::forward) {
    hand_over(of.begin_forward(a), out);
  } else if (a.kind != planner::action_kind::update) {
    auto job = of.begin_backward(a);
    hand_over(job, out);
    if (auto share = of.give_with(*job)) out.emplace_back(std::move(*share));
    // The cursor's credit is back as well; what is admitted for it arrives while the stream is busy.
    if (of.place().is_first_active && planner::ends_flight(a.kind)) out.emplace_back(return_credit{{job->key}});
  } else if (!of.gives_early() || !of.has_begun_group(a.minibatch)) {
    out.emplace_back(of.contribute(a.minibatch));
  }
}

void worker_core::hand_over(std::shared_ptr<stage_work> job, worker_effects& out) {
  ++computing_;
  out.emplace_back(compute{std::move(job)});
}

// The last stage that has work first: what is nearly through lets the next batch in.
void worker_core::pump_evaluation(worker_effects& out) {
  for (auto s = stages_.rbegin(); s != stages_.rend(); ++s)
    while (computing_ < computed_ahead) {
      auto job = s->next_evaluation();
      if (!job) break;
      hand_over(std::move(job), out);
    }
}

// First the stream gets its next work, then results are passed on.
worker_effects worker_core::completed(stage_work& job) {
  check(computing_ > 0, "a job came back that was not handed over");
  --computing_;
  worker_effects out;
  if (auto share = mine(job.key.stage).give_after(job)) out.emplace_back(std::move(*share));
  pump(out);
  stage(job.key.stage).finish(job, out);
  return out;
}

// -- the stall watchdog and the trace --------------------------------------------------

std::optional<planner::blocked_action> worker_core::waits_for() const {
  if (computing_ > 0 || evaluates_ || !run_ || cursor_.finished()) return {};
  planner::blocked_action blocked;
  if (cursor_.next(*this, &blocked)) return {};
  return blocked;
}

std::string worker_core::describe_wait() const {
  if (computing_ > 0) return who_ + " is computing";
  if (evaluates_) return who_ + " waits for something to evaluate";
  if (!run_ || cursor_.finished()) return who_ + " has finished its list";
  const auto blocked = waits_for();
  if (!blocked) return who_ + " is about to run";
  const auto number = blocked->what.stage;
  const auto text = who_ + " cannot run the " + planner::describe(blocked->what) +
                    (stages_.size() > 1 ? " of stage " + std::to_string(number) : "") + ": ";
  const auto neighbour = [](int of) { return of < 0 ? std::string("the source") : "stage " + std::to_string(of); };
  switch (blocked->why) {
  case planner::block_reason::no_input:
    return text + "it waits for the activation from " + neighbour(number - 1);
  case planner::block_reason::no_gradient:
    return text + "it waits for the gradient from " + neighbour(number + 1);
  case planner::block_reason::no_version:
    return text + "it waits for weight version " +
           std::to_string(stage(number).absolute_version(blocked->what.version)) + " from its optimizer";
  default:
    return text + "its credit is used up, it waits for a gradient from " + neighbour(number + 1);
  }
}

} // namespace penstock::actors
