// Carries out what a coordinator's core decides: tells the parts here and the other ranks, answers the executor.
#include "actors/run/coordinator_actor.hpp"

#include "actors/ranks/channels.hpp"
#include "actors/ranks/job.hpp"
#include "actors/ranks/note_text.hpp"
#include "actors/run/wiring.hpp"
#include "actors/stage/places.hpp"
#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <utility>

namespace penstock::actors {

namespace {

using clock = coordinator_core::clock;

class coordinator_shell {
public:
  void start(caf::event_based_actor* self) { self_ = self; }
  void take(const start_run_msg& m);
  void take(const train_msg& m) {
    reply_to_ = m.reply_to;
    carry_out(core().train(m.run, clock::now()));
  }
  void take(const start_evaluation_msg& m) {
    reply_to_ = m.reply_to;
    evaluation_ = m;
    carry_out(core().evaluate(clock::now()));
  }
  void take(const collect_msg& m);
  void take(const drain_msg&) { carry_out(core().drain(context_->services.control.stop)); }
  void take(const admitted_msg& m) { carry_out(core().admitted(m.stretch, m.minibatches)); }
  void take(const part_done_msg&) { carry_out(core().part_done()); }
  void take(const evaluated_msg& m) { carry_out(core().evaluated(m.total, m.is_complete)); }
  void take(const norm_msg& m) { carry_out(core().on(m)); }
  void take(const note& m) { carry_out(core().on(m)); }
  void take(const failure_msg& m);
  void take(const wait_description_msg& m) { carry_out(core().described(m.text)); }
  void take(const tick_msg&);
  void down(const caf::down_msg& m);
  void stop();

private:
  coordinator_core& core() {
    check(core_.has_value(), "the coordinator has not begun its run");
    return *core_;
  }
  void carry_out(coordinator_effects effects) {
    for (auto& e : effects)
      std::visit([this](auto& one) { carry_out_one(one); }, e);
  }
  void carry_out_one(const begin_training_here& e);
  void carry_out_one(const begin_evaluation_here& e);
  void carry_out_one(const end_after_here& e);
  void carry_out_one(const pause_source&) { caf::anon_send(all_.source, pause_source_msg{}); }
  void carry_out_one(tell_rank& e);
  void carry_out_one(const send_clip& e) {
    for (const auto& o : all_.all_optimizers)
      caf::anon_send(o, e.message);
  }
  void carry_out_one(const stretch_is_over& e) { caf::anon_send(reply_to_, stretch_done_msg{e.minibatches}); }
  void carry_out_one(const evaluation_is_over& e) {
    evaluation_ = {};
    caf::anon_send(reply_to_, evaluated_msg{e.total, e.is_complete});
  }
  void carry_out_one(const run_has_failed& e) {
    failure_ = e.cause;
    if (reply_to_) caf::anon_send(reply_to_, failure_msg{"", e.cause});
  }
  void carry_out_one(const ask_parts&);
  void carry_out_one(const say& e) { send(all_.metrics, say_msg{e.line}); } // of rank 0, which has them
  pipeline& parts() const { return context_->services.built; }
  const job* ranks() const { return context_->services.inputs.ranks; }
  template <class Message>
  void send(const caf::actor& to, const Message& m) const {
    if (to) caf::anon_send(to, m);
  }

  caf::event_based_actor* self_ = nullptr;
  context_ptr context_;
  std::shared_ptr<gate> incoming_;
  wired_actors all_;
  std::optional<coordinator_core> core_;
  caf::actor reply_to_;
  start_evaluation_msg evaluation_; // while one is asked for
  std::string failure_;
  std::int64_t source_credit_ = 1;
};

// -- start --------------------------------------------------------------------------

void coordinator_shell::take(const start_run_msg& m) {
  context_ = m.context;
  incoming_ = m.incoming;
  source_credit_ = m.dealing.source_credit();
  auto place = place_of(parts(), context_->services.options);
  place.evaluations = context_->services.evaluations;
  core_.emplace(std::move(place));
  // Whoever ends while the run goes on ends the run, from here on.
  all_ = wire_actors(self_->system(), context_, m.dealing, caf::actor_cast<caf::actor>(self_), incoming_.get(),
                     [this](const caf::actor& made) { self_->monitor(made); });
  self_->delayed_send(self_, std::chrono::milliseconds(100), tick_msg{});
}

// -- parts here -----------------------------------------------------------------------

void coordinator_shell::carry_out_one(const begin_training_here& e) {
  const begin_training_msg begin{e.run};
  // A replica that has no minibatch in this stretch speaks to its optimizer as soon as it begins.
  for (const auto& o : all_.optimizers)
    send(o, begin);
  for (const auto& worker : all_.local_workers)
    send(worker, begin);
  send(all_.metrics, begin);
  if (incoming_) incoming_->open(e.run->number);
  send(all_.source, begin); // last: nothing is admitted before all know of the stretch
}

void coordinator_shell::carry_out_one(const begin_evaluation_here& e) {
  for (int position = 0; position < parts().positions(); ++position)
    for (const int r : parts().stages[static_cast<std::size_t>(position)].local) {
      begin_evaluation_msg begin{e.stretch, {}};
      for (const int stage : parts().stages_at(position))
        begin.states.push_back(evaluation_.states.at(static_cast<std::size_t>(stage)));
      caf::anon_send(all_.stages[static_cast<std::size_t>(position)][static_cast<std::size_t>(r)], std::move(begin));
    }
  for (const auto& optimizer : all_.optimizers)
    send(optimizer, lend_weights_msg{e.stretch});
  const auto& o = context_->services.options;
  const auto loader = std::make_shared<microbatch_loader>(context_->services.inputs.net, *evaluation_.data,
                                                          evaluation_batches(o, evaluation_.batch), 1);
  const auto batches = loader->minibatches().per_epoch();
  send(all_.metrics, evaluate_losses_msg{{e.stretch, batches}, loader->samples_of_epoch()});
  if (incoming_) incoming_->open(e.stretch);
  send(all_.source, evaluate_data_msg{{e.stretch, batches, source_credit_}, loader});
}

void coordinator_shell::carry_out_one(const end_after_here& e) {
  if (e.is_shorter) {
    for (const auto& worker : all_.local_workers)
      send(worker, e.message);
    for (const auto& o : all_.optimizers)
      send(o, e.message);
    send(all_.metrics, e.message);
  }
  send(all_.source, e.message);
}

void coordinator_shell::carry_out_one(const ask_parts&) {
  send(all_.source, describe_wait_msg{});
  for (const auto& worker : all_.local_workers)
    send(worker, describe_wait_msg{});
  for (const auto& o : all_.optimizers)
    send(o, describe_wait_msg{});
}

void coordinator_shell::take(const collect_msg& m) {
  if (!failure_.empty()) return caf::anon_send(m.reply_to, failure_msg{"", failure_});
  reply_to_ = m.reply_to;
  for (const auto& worker : all_.local_workers)
    send(worker, m);
  for (const auto& o : all_.optimizers)
    send(o, m);
}

// -- other ranks ----------------------------------------------------------------------

// A note to this rank goes through the mailbox too, behind what is there.
void coordinator_shell::carry_out_one(tell_rank& e) {
  if (e.rank == parts().rank)
    caf::anon_send(caf::actor_cast<caf::actor>(self_), std::move(e.what));
  else
    ranks()->control.send(e.rank, note_topic(context_->services.plan_epoch), encode(e.what));
}

// -- failure --------------------------------------------------------------------------

void coordinator_shell::take(const failure_msg& m) {
  if (core_) return carry_out(core_->failed(m.who, m.what));
  failure_ = m.what; // before the run began
}

void coordinator_shell::down(const caf::down_msg& m) {
  const auto who = all_.name_of(m.source);
  carry_out(core().died(who.empty() ? "an actor" : who, to_string(m.reason)));
}

void coordinator_shell::take(const tick_msg&) {
  self_->delayed_send(self_, std::chrono::milliseconds(100), tick_msg{});
  if (!core().is_working()) return;
  if (ranks() != nullptr) ranks()->control.doing(context_->describe());
  carry_out(core().tick(clock::now(), context_->progress.load()));
}

void coordinator_shell::stop() {
  if (incoming_) incoming_->close();
  for (const auto& a : all_.everyone()) {
    self_->demonitor(a);
    caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
  }
  self_->quit();
}

caf::behavior coordinator_behavior(caf::stateful_actor<coordinator_shell>* self) {
  auto& state = self->state;
  state.start(self);
  const auto run = [self](auto body) {
    try {
      body();
    } catch (const std::exception& e) {
      self->state.take(failure_msg{"coordinator", described(e)});
    }
  };
  self->set_exit_handler([&state](caf::exit_msg&) { state.stop(); });
  self->set_down_handler([=, &state](caf::down_msg& m) { run([&] { state.down(m); }); });
  const auto take = [=, &state](const auto& m) { run([&] { state.take(m); }); };
  return {
      [=](const start_run_msg& m) { take(m); },
      [=](const train_msg& m) { take(m); },
      [=](const start_evaluation_msg& m) { take(m); },
      [=](const collect_msg& m) { take(m); },
      [=](const drain_msg& m) { take(m); },
      [=](const admitted_msg& m) { take(m); },
      [=](const part_done_msg& m) { take(m); },
      [=](const evaluated_msg& m) { take(m); },
      [=](const norm_msg& m) { take(m); },
      [=](const failure_msg& m) { take(m); },
      [=](const wait_description_msg& m) { take(m); },
      [=](const note& m) { take(m); },
      [=](const tick_msg& m) { take(m); },
  };
}

} // namespace

caf::actor spawn_coordinator(caf::actor_system& system) {
  return system.spawn(coordinator_behavior);
}

} // namespace penstock::actors
