// Mailboxes, streams and their completions are queues, the network is a bag; a script says which gives its next event.
#include "tests/actors/scripted/scripted_run.hpp"

#include "actors/policy/settle_plan.hpp"
#include "actors/stage/places.hpp"
#include "actors/stage/stage_compute.hpp"
#include "kernels/check.hpp"
#include "tests/actors/scripted/scripted_events.hpp"
#include "tests/actors/scripted/scripted_site.hpp"

#include <array>
#include <utility>

namespace penstock::testing {

namespace {

using namespace actors; // NOLINT: a test speaks of little else

using event = scripted_event;
using site = scripted_site;

class scripted_pipeline {
public:
  scripted_pipeline(const scripted_case& what, script& choices, bool keeps_log)
      : case_(what), events_(choices), keeps_log_(keeps_log), training_loader_(training_loader_of(what)) {
    for (int r = 0; r < where_.ranks; ++r)
      sites_.push_back(std::make_unique<site>(what, r));
  }

  scripted_outcome run() {
    try {
      for (auto& s : sites_)
        next_part(*s);
      while (happen()) {
      }
      finish();
    } catch (const std::exception& e) {
      outcome_.fault = e.what();
    }
    return std::move(outcome_);
  }

private:
  const placement& where() const { return where_; }
  int stage_count() const { return static_cast<int>(case_.plan.plan->stages.size()); }

  // -- events --------------------------------------------------------------------------

  void post(int rank, const std::string& queue, event e, bool is_bag = false) {
    events_.post(rank, queue, std::move(e), is_bag);
  }

  // To a part of any rank; between ranks by the network, which holds nothing in order, and the gate.
  void send(int from, int to, const std::string& part, std::int64_t stretch, event e) {
    if (from == to) return post(to, part, std::move(e));
    auto pass = [this, to, part, stretch, e] {
      auto& s = *sites_[static_cast<std::size_t>(to)];
      if (s.open == stretch)
        post(to, part, e);
      else
        s.held.emplace_back(stretch, [this, to, part, e] { post(to, part, e); });
    };
    post(to, "from " + std::to_string(from), {"message: " + e.what, pass}, true);
  }

  bool happen() {
    const auto now = static_cast<int>(outcome_.events);
    if (now == case_.lost_after) lose_a_rank();
    for (const int wish : case_.drain_wishes)
      if (wish == now) {
        auto& s = *sites_[static_cast<std::size_t>(now) % sites_.size()];
        if (!events_.is_lost(s.rank())) carry_out(s, s.coordinator->drain(false));
      }
    check(++outcome_.events < 2'000'000, "a scripted run does not end");
    return events_.happen(keeps_log_ ? &outcome_.log : nullptr);
  }

  // The others are told by the control plane.
  void lose_a_rank() {
    events_.lose(sites_.back()->rank());
    for (auto& s : sites_)
      if (!events_.is_lost(s->rank())) carry_out(*s, s->coordinator->failed("", "[job] a rank was lost"));
  }

  // -- stages --------------------------------------------------------------------------

  std::string worker_name(int stage, int replica) const {
    return "worker " + std::to_string(stage % (stage_count() / case_.plan.plan->chunks)) + "." +
           std::to_string(replica);
  }

  std::string stream_of(int stage, int replica) const { return "stream of " + worker_name(stage, replica); }

  // What a stream is done with it says in order, but perhaps when it is far ahead.
  void complete(site& s, int stage, int replica, const std::string& to, event e) {
    post(s.rank(), "completions of " + worker_name(stage, replica),
         {"done: " + e.what, [this, &s, to, e] { post(s.rank(), to, e); }});
  }

  template <class Message>
  void to_replica(int from, int stage, int replica, std::int64_t stretch, const std::string& what, Message m,
                  bool may_overtake) {
    const int to = where().host(stage, replica);
    auto& s = *sites_[static_cast<std::size_t>(to)];
    send(from, to, worker_name(stage, replica), stretch,
         {what + " for stage " + std::to_string(stage) + " to " + worker_name(stage, replica),
          [this, &s, stage, replica, m] { carry_out(s, replica, s.worker(stage, replica).on(m)); }, may_overtake});
  }

  int deal(int stage, const message_key& k) const {
    const auto replicas = where().rank_of[static_cast<std::size_t>(stage)].size();
    if (k.mode == phase::evaluation) return static_cast<int>(k.since_drain % static_cast<std::int64_t>(replicas));
    return planner::replica_of(case_.plan.dealing, stage, k.since_drain, k.microbatch);
  }

  void carry_out(site& s, int replica, worker_effects effects) {
    for (auto& e : effects)
      std::visit([&](auto& one) { carry_out_one(s, replica, one); }, e);
  }

  void carry_out_one(site& s, int replica, compute& e) {
    const int stage = e.job->key.stage;
    auto& unit = s.unit(stage);
    const auto work = [this, &s, &unit, stage, replica, job = e.job] {
      auto layer_done = job->completes_group < 0 ? layer_listener() : bucket_sender(s, *job, stage, replica);
      compute_job(*s.ops[stage], *s.parts, unit, unit.replicas[static_cast<std::size_t>(replica)], *job, layer_done);
      job->tells.settle();
      job->drop_inputs();
      complete(s, stage, replica, worker_name(stage, replica),
               {"completion to " + worker_name(stage, replica),
                [this, &s, stage, replica, job] { carry_out(s, replica, s.worker(stage, replica).completed(*job)); }});
    };
    post(s.rank(), stream_of(stage, replica),
         {std::array{"forward ", "backward ", "backward_input ", "backward_weight ",
                     "evaluation "}[static_cast<std::size_t>(e.job->what)] +
              std::to_string(e.job->key.minibatch) + "." + std::to_string(e.job->key.microbatch) + " of stage " +
              std::to_string(stage) + " on " + worker_name(stage, replica),
          work});
  }

  layer_listener bucket_sender(site& s, const stage_work& job, int stage, int replica) {
    auto send = [this, &s, &job, stage, replica, next = std::size_t{0}](int layer) mutable {
      const auto& plan = *s.buckets.at(stage);
      const auto& layers = *s.unit(stage).layers;
      for (; next < plan.size() && plan[next].first >= layers.first_parameter(layer); ++next) {
        gradient_bucket_msg m{job.key.stretch, job.completes_group, replica, next, {}};
        m.gradients.assign(job.gradients->begin() + static_cast<std::ptrdiff_t>(plan[next].first),
                           job.gradients->begin() + static_cast<std::ptrdiff_t>(plan[next].last));
        to_optimizer(s, stage, "bucket", std::move(m));
      }
    };
    return std::make_shared<const std::function<void(int)>>(std::move(send));
  }

  void carry_out_one(site& s, int, send_activation& e) {
    const auto& k = e.message.key;
    const int to = deal(k.stage, k);
    to_replica(s.rank(), k.stage, to, k.stretch, "activation", std::move(e.message), true);
  }
  void carry_out_one(site& s, int, send_gradient& e) {
    const auto& k = e.message.key;
    const int to = deal(k.stage, k);
    to_replica(s.rank(), k.stage, to, k.stretch, "gradient", std::move(e.message), true);
  }
  void carry_out_one(site& s, int, send_loss& e) {
    auto& first = *sites_.front();
    send(s.rank(), 0, "metrics", e.message.key.stretch,
         {"loss", [this, &first, m = e.message] { carry_out(first, first.metrics->on(m)); }, true});
  }
  void carry_out_one(site& s, int, return_credit& e) {
    const int to = where().host(0, deal(0, e.message.key));
    auto& owner = *sites_[static_cast<std::size_t>(to)];
    send(s.rank(), to, "source", e.message.key.stretch,
         {"credit", [this, &owner, m = e.message] { carry_out(owner, owner.source->on(m)); }, true});
  }
  void carry_out_one(site& s, int, give_gradients& e) { to_optimizer(s, e.stage, "gradients", std::move(e.share)); }
  void carry_out_one(site& s, int, part_is_done&) { part_done(s); }

  // -- optimizers ----------------------------------------------------------------------

  template <class Message>
  void to_optimizer(site& s, int stage, const std::string& what, Message m) {
    post(s.rank(), "optimizer " + std::to_string(stage),
         {what + " to optimizer " + std::to_string(stage),
          [this, &s, stage, m] { carry_out(s, stage, s.optimizers.at(stage)->on(m)); }});
  }
  void on_update_stream(site& s, int stage, const std::string& what, std::function<void()> work,
                        bool jumps_the_queue = false) {
    const auto queue = stream_of(stage, s.unit(stage).local.front());
    event e{what + " of stage " + std::to_string(stage), std::move(work)};
    if (jumps_the_queue)
      events_.post_before_last(s.rank(), queue, std::move(e));
    else
      post(s.rank(), queue, std::move(e));
  }
  template <class Tell>
  void complete_update(site& s, int stage, const std::string& what, Tell tell) {
    complete(s, stage, s.unit(stage).local.front(), "optimizer " + std::to_string(stage),
             {what, [this, &s, stage, tell] { carry_out(s, stage, tell(*s.optimizers.at(stage))); }});
  }

  void carry_out(site& s, int stage, optimizer_effects effects) {
    for (auto& e : effects)
      std::visit([&](auto& one) { carry_out_one(s, stage, one); }, e);
  }
  void carry_out_one(site& s, int stage, sum_replicas& e) {
    on_update_stream(s, stage, "sum", [&s, stage, e] { *e.sum = sum_gradients(*s.ops[stage], e.gradients); });
  }
  void carry_out_one(site& s, int stage, reduce_bucket& e) {
    const std::array<std::int64_t, 4> key{stage, e.stretch, e.group, static_cast<std::int64_t>(e.bucket)};
    auto& all = reductions_[key];
    all.emplace(s.rank(), std::move(e));
    const auto hosts = where().hosts(stage);
    if (all.size() < hosts.size()) return;
    for (const int rank : hosts) {
      auto& one = *sites_[static_cast<std::size_t>(rank)];
      post(rank, "all-reduce",
           {"all-reduced bucket of stage " + std::to_string(stage),
            [this, &one, stage, parts = all] { to_optimizer(one, stage, "bucket's sum", one.sum_of(stage, parts)); }},
           true);
    }
    reductions_.erase(key);
  }
  void carry_out_one(site&, int, const forget_reductions_before&) {}
  void carry_out_one(site& s, int stage, const send_weights& e) {
    for (const int r : s.unit(stage).local)
      to_replica(s.rank(), stage, r, e.message.stretch, "weights", e.message, false);
  }
  void carry_out_one(site& s, int stage, share_uses& e) {
    on_update_stream(s, stage, "share", [this, &s, stage, job = e.job, uses = std::make_shared<tie_msg>(e.message)] {
      uses->tensors = uses_of(shared_tensors(*s.parts, stage), *job->gradients);
      complete_update(s, stage, "shared", [uses](optimizer_core& o) { return o.shared(*uses); });
    });
  }
  void carry_out_one(site& s, int stage, const send_uses& e) {
    for (const int other : sharers_of(*s.parts, stage))
      for (const int rank : where().hosts(other)) {
        auto& to = *sites_[static_cast<std::size_t>(rank)];
        send(s.rank(), rank, "optimizer " + std::to_string(other), e.message.stretch,
             {"uses", [this, &to, other, m = e.message] { carry_out(to, other, to.optimizers.at(other)->on(m)); }});
      }
  }
  void carry_out_one(site& s, int stage, const compute_squares& e) {
    on_update_stream(s, stage, "norm", [this, &s, stage, job = e.job] {
      add_uses(*s.ops[stage], *s.unit(stage).layers, *job->gradients, job->across);
      gradient_squares(*s.ops[stage], *job->gradients, job->squares, job->tells);
      job->tells.settle();
      complete_update(s, stage, "squares", [job](optimizer_core& o) { return o.squared(*job); });
    });
  }
  void carry_out_one(site& s, int, const send_norm& e) {
    auto& first = *sites_.front();
    send(s.rank(), 0, "coordinator", e.message.stretch,
         {"norm", [this, &first, m = e.message] { carry_out(first, first.coordinator->on(m)); }});
  }
  void carry_out_one(site& s, int stage, const compute_update_of& e) {
    const weights_msg made{e.job->stretch, stage, e.job->group + 1, e.job->made};
    const auto& local = s.unit(stage).local;
    const auto work = [this, &s, stage, made, &local, job = e.job] {
      add_uses(*s.ops[stage], *s.unit(stage).layers, *job->gradients, job->across);
      compute_update(*s.ops[stage], *s.parts, s.unit(stage), case_.plan.options, job->order, *job->gradients,
                     *job->owned, job->in_place, job->tells, job->made);
      job->tells.settle();
      job->gradients.reset();
      for (std::size_t r = 1; r < local.size(); ++r)
        complete(s, stage, local.front(), worker_name(stage, local[r]),
                 {"weights to " + worker_name(stage, local[r]),
                  [this, &s, stage, r = local[r], made] { carry_out(s, r, s.worker(stage, r).on(made)); }});
      complete_update(s, stage, "update done", [job](optimizer_core& o) { return o.updated(*job); });
    };
    on_update_stream(s, stage, "update " + std::to_string(e.job->group), work, case_.updates_jump_the_queue);
    to_replica(s.rank(), stage, local.front(), made.stretch, "weights", made, false);
  }
  void carry_out_one(site& s, int, const updates_are_done&) { part_done(s); }

  // -- source and metrics ----------------------------------------------------------------

  void carry_out(site& s, source_effects effects) {
    for (auto& e : effects)
      std::visit([&](auto& one) { carry_out_one(s, one); }, e);
  }
  void carry_out_one(site& s, const load_microbatch& e) {
    post(s.rank(), "loaders",
         {"load",
          [this, &s, key = e.key, loader = s.loader] {
            auto data = loader->load(key.minibatch, key.microbatch);
            post(s.rank(), "source", {"loaded", [this, &s, key, data] { carry_out(s, s.source->loaded(key, data)); }});
          }},
         true);
  }
  void carry_out_one(site& s, admit_microbatch& e) {
    const auto key = e.activation.key;
    for (auto& m : e.fed)
      to_replica(s.rank(), m.key.stage, deal(m.key.stage, key), key.stretch, "inputs", m, true);
    to_replica(s.rank(), 0, deal(0, key), key.stretch, "admission", std::move(e.activation), true);
  }
  void carry_out_one(site& s, const admitted_so_far& e) {
    post(s.rank(), "coordinator",
         {"admitted", [this, &s, e] { carry_out(s, s.coordinator->admitted(e.stretch, e.minibatches)); }});
  }
  void carry_out_one(site& s, const all_is_admitted&) { part_done(s); }

  void carry_out(site& s, metrics_effects effects) {
    for (auto& e : effects)
      std::visit([&](auto& one) { carry_out_one(s, one); }, e);
  }
  template <class Told>
  void carry_out_one(site&, const Told&) {} // of steps and progress
  void carry_out_one(site& s, const losses_are_in&) { part_done(s); }
  void carry_out_one(site& s, const evaluation_is_in& e) {
    post(s.rank(), "coordinator",
         {"evaluated", [this, &s, e] { carry_out(s, s.coordinator->evaluated(e.total, e.is_complete)); }});
  }

  // -- the coordinator -------------------------------------------------------------------

  void part_done(site& s) {
    post(s.rank(), "coordinator", {"part done", [this, &s] { carry_out(s, s.coordinator->part_done()); }});
  }

  void carry_out(site& s, coordinator_effects effects) {
    for (auto& e : effects)
      std::visit([&](auto& one) { carry_out_one(s, one); }, e);
  }
  template <class Message>
  void to_all_parts(site& s, const Message& m) {
    for (auto& [stage, o] : s.optimizers)
      to_optimizer(s, stage, "begin or end", m);
    for (auto& [at, core] : s.workers)
      to_replica(s.rank(), at.first, at.second, 0, "begin or end", m, false);
    if (s.metrics) post(s.rank(), "metrics", {"begin or end", [this, &s, m] { carry_out(s, s.metrics->on(m)); }});
  }
  void to_source(site& s, const std::string& what, std::function<source_effects(source_core&)> tell) {
    if (s.source) post(s.rank(), "source", {what, [this, &s, tell] { carry_out(s, tell(*s.source)); }});
  }
  void carry_out_one(site& s, const begin_training_here& e) {
    to_all_parts(s, begin_training_msg{e.run});
    s.open_gate(e.run->number);
    to_source(s, "begin", [this, &s, run = e.run](source_core& c) {
      s.loader = training_loader_;
      return c.on(begin_training_msg{run});
    });
  }
  void carry_out_one(site& s, const begin_evaluation_here& e) {
    const auto states = mean_states(s);
    for (auto& [at, core] : s.workers) {
      begin_evaluation_msg begin{e.stretch, {}};
      for (const int stage : s.parts->stages_at(at.first))
        begin.states.push_back(states.at(static_cast<std::size_t>(stage)));
      to_replica(s.rank(), at.first, at.second, e.stretch, "evaluate", std::move(begin), false);
    }
    for (auto& [stage, o] : s.optimizers)
      to_optimizer(s, stage, "lend", lend_weights_msg{e.stretch});
    const auto& o = case_.plan.options;
    const auto loader = std::make_shared<microbatch_loader>(case_.inputs.net, *case_.inputs.test,
                                                            evaluation_batches(o, o.eval_batch), 1);
    const auto batches = loader->minibatches().per_epoch();
    if (s.metrics)
      post(s.rank(), "metrics",
           {"evaluate", [this, &s, m = count_evaluation_msg{e.stretch, batches}] { carry_out(s, s.metrics->on(m)); }});
    s.open_gate(e.stretch);
    to_source(s, "evaluate",
              [this, &s, loader,
               m = admit_evaluation_msg{e.stretch, batches, case_.plan.dealing.source_credit()}](source_core& c) {
                s.loader = loader;
                return c.on(m);
              });
  }
  void carry_out_one(site& s, const end_after_here& e) {
    if (e.is_shorter) to_all_parts(s, e.message);
    to_source(s, "end", [m = e.message](source_core& c) { return c.on(m); });
  }
  void carry_out_one(site& s, const pause_source&) {
    to_source(s, "pause", [](source_core& c) { return c.pause(); });
  }
  void carry_out_one(site& s, tell_rank& e) {
    auto& to = *sites_[static_cast<std::size_t>(e.rank)];
    const auto hear = [this, &to, n = e.what] { carry_out(to, to.coordinator->on(n)); };
    if (e.rank == s.rank())
      post(e.rank, "coordinator", {"note to itself", hear});
    else // the control plane keeps the order of two ranks
      post(e.rank, "notes from " + std::to_string(s.rank()), {"note", [this, rank = e.rank, hear] {
                                                                post(rank, "coordinator", {"note", hear});
                                                              }});
  }
  void carry_out_one(site& s, const send_clip& e) {
    for (int stage = 0; stage < stage_count(); ++stage)
      for (const int rank : where().hosts(stage)) {
        auto& to = *sites_[static_cast<std::size_t>(rank)];
        send(s.rank(), rank, "optimizer " + std::to_string(stage), e.message.stretch,
             {"clip", [this, &to, stage, m = e.message] { carry_out(to, stage, to.optimizers.at(stage)->on(m)); }});
      }
  }
  void carry_out_one(site& s, const stretch_is_over& e) {
    s.done += e.minibatches;
    s.stretches.push_back(e.minibatches);
    s.evaluates = case_.inputs.test != nullptr;
    next_part(s);
  }
  void carry_out_one(site& s, const evaluation_is_over& e) {
    s.losses.push_back(e.total.sums[0]);
    s.evaluates = false;
    next_part(s);
  }
  void carry_out_one(site& s, const run_has_failed& e) { s.failure = e.cause; }

  // -- the trainer ------------------------------------------------------------------------

  // All ranks are at the same drain before one of them reads what another has.
  std::vector<std::vector<tensor>> mean_states(site& s) {
    std::vector<std::vector<tensor>> all(static_cast<std::size_t>(stage_count()));
    for (const auto& unit : s.parts->stages) {
      if (!unit.is_local()) continue;
      for (std::size_t i = 0; i < unit.layers->states().size(); ++i) {
        std::vector<tensor> replicas;
        for (int r = 0; r < static_cast<int>(unit.replicas.size()); ++r) {
          auto& host = *sites_[static_cast<std::size_t>(where().host(unit.index, r))];
          replicas.push_back(host.worker(unit.index, r).stage(unit.index).states()[i]);
        }
        all[static_cast<std::size_t>(unit.index)].push_back(mean_of(replicas, pool_));
      }
    }
    return all;
  }

  void next_part(site& s) {
    if (!s.failure.empty()) return;
    if (!s.evaluates && s.done >= case_.plan.drains.total) {
      s.is_over = true;
      return;
    }
    post(s.rank(), "trainer", {s.evaluates ? "evaluate" : "train", [this, &s] { begin_part(s); }});
  }

  // A rank whose statistics another still needs may not train on: the trainer's exchange of them is a barrier.
  void begin_part(site& s) {
    const auto now = coordinator_core::clock::time_point{};
    if (s.evaluates) {
      for (const auto& other : sites_)
        if (other->stretches.size() < s.stretches.size() && !events_.is_lost(other->rank())) {
          next_part(s);
          return;
        }
      return carry_out(s, s.coordinator->evaluate(now));
    }
    const auto end = case_.plan.drains.next(s.done);
    auto run = std::make_shared<stretch>(
        *plan_stretch(case_.plan, static_cast<std::int64_t>(s.stretches.size()), s.done, end - s.done));
    if (case_.mutate) case_.mutate(run->schedule);
    carry_out(s, s.coordinator->train(std::move(run), now));
  }

  void finish() {
    if (case_.lost_after >= 0) {
      for (const auto& s : sites_)
        if (!events_.is_lost(s->rank()) && !s->is_over && s->failure.empty())
          outcome_.fault = "a rank was not told of the loss";
      return;
    }
    std::string waits;
    for (const auto& s : sites_)
      waits += s->waits();
    for (const auto& s : sites_) {
      if (!s->failure.empty()) throw error(s->failure);
      if (!s->is_over) throw error("stalled: " + waits);
      if (s->stretches != sites_.front()->stretches) throw error("two ranks trained stretches of different lengths");
    }
    outcome_.stretches = sites_.front()->stretches;
    outcome_.losses = sites_.front()->losses;
    outcome_.weights = hash();
  }

  // The stages' copies from all ranks, as if of one.
  std::string hash() {
    std::map<int, stage_copy> copies;
    for (auto& s : sites_)
      s->copy_into(copies, pool_);
    auto alone = build_in_one_process(case_);
    return hash_of_all(*alone, std::move(copies));
  }

  const scripted_case& case_;
  placement where_ = placement_of(*case_.plan.plan);
  scripted_events events_;
  bool keeps_log_;
  std::shared_ptr<microbatch_loader> training_loader_;
  memory_pool pool_;
  std::vector<std::unique_ptr<site>> sites_;
  std::map<std::array<std::int64_t, 4>, std::map<int, reduce_bucket>> reductions_;
  scripted_outcome outcome_;
};

} // namespace

scripted_outcome run_scripted(const scripted_case& what, script& choices, bool keeps_log) {
  return scripted_pipeline(what, choices, keeps_log).run();
}

} // namespace penstock::testing
