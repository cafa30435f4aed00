// Runs stretches with actors: one actor system, one coordinator, and this thread waiting for them.
#include "actors/ranks/channels.hpp"
#include "actors/ranks/job.hpp"
#include "actors/ranks/note_text.hpp"
#include "actors/run/coordinator_actor.hpp"
#include "actors/run/resolved_run.hpp"
#include "actors/stage/stage_copies.hpp"
#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"

#include <caf/actor_registry.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <system_error>
#include <thread>

namespace penstock::actors {

namespace {

// CAF 0.17's work stealing scheduler lets an idle actor wait for milliseconds; sharing wakes it in microseconds.
struct system_config : caf::actor_system_config {
  system_config() {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::size_t{2}); // handlers are light: compute runs on streams
  }
};

// Where a thread cannot be started, CAF's own start-up waits for ever; so it is tried first.
void prove_threads_start() {
  constexpr int as_many_as_caf = 7; // two of its scheduler, its clock, its printer, the metrics', the loader's, a spare
  require_threads(as_many_as_caf, "the threads of actors");
  std::promise<void> go;
  const auto all_there = go.get_future().share();
  std::vector<std::thread> threads;
  std::string refusal;
  try {
    while (threads.size() < as_many_as_caf)
      threads.emplace_back([all_there] { all_there.wait(); });
  } catch (const std::system_error& e) {
    refusal = e.code().message();
  }
  go.set_value();
  for (auto& t : threads)
    t.join();
  if (!refusal.empty()) throw error("cannot start threads for actors: " + refusal + " (out of memory?)");
}

using clock = std::chrono::steady_clock;

class actors_executor final : public executor {
public:
  explicit actors_executor(run_services& services);
  ~actors_executor() override;
  std::int64_t train(stretch_ptr run) override;
  std::optional<loss_metrics> evaluate(const dataset& data, std::int64_t batch,
                                       const std::vector<std::vector<tensor>>& states) override;
  std::map<int, stage_copy> collect(copy_of what) override;
  void require_finite(const std::string& after) override { ask(copy_of::nothing, after); }
  std::map<int, stage_measures> measure() override;

private:
  void connect(const job& ranks);
  void await_actors();
  void finish_streams();
  std::vector<collected_msg> ask(copy_of what, const std::string& after = {});
  template <class Message, class Take>
  void await(Take take, std::optional<clock::time_point> answers_by = {});

  run_services& services_;
  system_config config_;
  caf::actor_system system_;
  caf::scoped_actor self_;
  caf::actor coordinator_;
  context_ptr context_;
  std::shared_ptr<gate> gate_;
};

actors_executor::actors_executor(run_services& services)
    : services_(services), system_(config_), self_(system_), coordinator_(spawn_coordinator(system_)),
      context_(new actor_context{services, coordinator_}) {
  self_->monitor(coordinator_);
  if (services.inputs.ranks != nullptr) gate_ = std::make_shared<gate>(context_);
  caf::anon_send(coordinator_, start_run_msg{context_, planner::schedule_of(services.plan), gate_});
  if (services.inputs.ranks != nullptr) connect(*services.inputs.ranks);
}

// From here on what other ranks say reaches the coordinator and the gate, both of which wait for who is not there yet.
void actors_executor::connect(const job& ranks) {
  ranks.control.on_message(note_topic(services_.plan_epoch), [to = coordinator_](int, std::string_view text) {
    try {
      caf::anon_send(to, decode_note(text));
    } catch (const error& e) {
      caf::anon_send(to, failure_msg{"coordinator", e.what()});
    }
  });
  ranks.data.listen(in_epoch(actor_channel, services_.plan_epoch), gate_);
}

actors_executor::~actors_executor() {
  if (const auto* ranks = services_.inputs.ranks) {
    ranks->data.listen(in_epoch(actor_channel, services_.plan_epoch), nullptr);
    ranks->control.on_message(note_topic(services_.plan_epoch), {});
    gate_->close();
  }
  self_->demonitor(coordinator_);
  caf::anon_send_exit(coordinator_, caf::exit_reason::user_shutdown);
  coordinator_ = nullptr;
  await_actors();
  finish_streams(); // completions of what was posted find no actor and end there
}

// CAF waits for its actors without a deadline; one of them may hang in somebody's layer, or for want of memory.
void actors_executor::await_actors() {
  constexpr auto patience = std::chrono::seconds(20);
  const auto until = std::chrono::steady_clock::now() + patience;
  while (system_.registry().running() > 1) { // this thread's own is one
    if (std::chrono::steady_clock::now() > until) {
      std::fputs("penstock: an actor does not end; leaving\n", stderr);
      std::_Exit(1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  self_->await_all_other_actors_done();
}

// A kernel that does not return cannot be stopped; the run has failed and said so, and must end.
void actors_executor::finish_streams() {
  constexpr auto patience = std::chrono::seconds(10);
  for (auto& s : services_.built.stages)
    for (const int local : s.local) {
      auto& r = s.replicas[static_cast<std::size_t>(local)];
      auto done = std::make_shared<std::promise<void>>();
      auto finished = done->get_future();
      r.work->post([](backend&) {}, [done](std::exception_ptr) { done->set_value(); });
      if (finished.wait_for(patience) == std::future_status::ready) continue;
      std::fprintf(stderr, "penstock: stage %d does not return from its computation; leaving\n", s.index);
      std::_Exit(1);
    }
}

// Waits for the coordinator's answer, or for one of those who answer by themselves until then; meanwhile looks at what
// signal handlers asked for.
template <class Message, class Take>
void actors_executor::await(Take take, std::optional<clock::time_point> answers_by) {
  bool answered = false;
  int waited = 0;
  std::string failure;
  while (!answered) {
    self_->receive(
        [&](const Message& m) {
          take(m);
          answered = true;
        },
        [&](const failure_msg& m) {
          failure = m.what;
          answered = true;
        },
        [&](const caf::down_msg& m) {
          failure = "[coordinator] ended though the run goes on: " + to_string(m.reason);
          answered = true;
        },
        caf::after(std::chrono::milliseconds(20)) >>
            [&] {
              if (const auto* ranks = services_.inputs.ranks)
                if (const auto cause = ranks->control.failure()) throw job_ended(*cause);
              if (answers_by && clock::now() > *answers_by)
                throw error("[stall] a stage does not answer at a drain: it has not for " +
                            std::to_string(services_.options.stall_seconds) + " s");
              if (answers_by || !services_.control.wants_drain()) return;
              // Again and again: rank 0 may not have begun the stretch yet.
              if (waited++ % 10 == 0) caf::anon_send(coordinator_, drain_msg{});
            });
  }
  if (failure.empty()) return;
  if (const auto* ranks = services_.inputs.ranks)
    if (const auto cause = ranks->control.failure()) throw job_ended(*cause);
  throw error(failure);
}

std::int64_t actors_executor::train(stretch_ptr run) {
  caf::anon_send(coordinator_, train_msg{std::move(run), caf::actor_cast<caf::actor>(self_)});
  std::int64_t trained = 0;
  await<stretch_done_msg>([&](const stretch_done_msg& m) { trained = m.minibatches; });
  return trained;
}

std::optional<loss_metrics> actors_executor::evaluate(const dataset& data, std::int64_t batch,
                                                      const std::vector<std::vector<tensor>>& states) {
  caf::anon_send(coordinator_, start_evaluation_msg{&data, batch, states, caf::actor_cast<caf::actor>(self_)});
  std::optional<loss_metrics> total;
  await<evaluated_msg>([&](const evaluated_msg& m) {
    if (m.is_complete) total = m.total;
  });
  return total;
}

// Every owner here answers once: each replica and each optimizer.
std::vector<collected_msg> actors_executor::ask(copy_of what, const std::string& after) {
  caf::anon_send(coordinator_,
                 collect_msg{what, std::make_shared<memory_pool>(), after, caf::actor_cast<caf::actor>(self_)});
  std::size_t owners = 0;
  for (const auto& s : services_.built.stages)
    if (s.is_local()) owners += s.local.size() + 1;
  std::vector<collected_msg> all;
  const auto answers_by = clock::now() + std::chrono::duration_cast<clock::duration>(
                                             std::chrono::duration<double>(services_.options.stall_seconds));
  while (all.size() < owners)
    await<collected_msg>([&](const collected_msg& m) { all.push_back(m); }, answers_by);
  return all;
}

std::map<int, stage_copy> actors_executor::collect(copy_of what) {
  std::map<int, stage_copy> copies;
  for (auto& m : ask(what))
    copies[m.stage].merge(std::move(m.copy));
  return copies;
}

// Asked of all owners, since only an optimizer has measures.
std::map<int, stage_measures> actors_executor::measure() {
  std::map<int, stage_measures> all;
  for (const auto& m : ask(copy_of::measures))
    if (m.measures) all[m.stage] = *m.measures;
  return all;
}

} // namespace

std::unique_ptr<executor> make_actors_executor(run_services& services) {
  prove_threads_start();
  return std::make_unique<actors_executor>(services);
}

} // namespace penstock::actors
