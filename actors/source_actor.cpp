// Admits micro-batches in order, one for each credit, from data that was loaded ahead.
#include "actors/source_actor.hpp"

#include "actors/source_tracer.hpp"
#include "kernels/check.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <algorithm>
#include <map>

namespace penstock::actors {

namespace {

class source {
public:
  void start(caf::event_based_actor* self, context_ptr context) {
    self_ = self;
    context_ = std::move(context);
    const auto& s = context_->services;
    trace_ = source_tracer(s.trace);
    training_loader_ = std::make_shared<microbatch_loader>(*s.inputs.train, s.options.batch, s.plan.microbatches,
                                                           s.options.seed, true, s.options.last);
  }
  void connect(const connect_source_msg& m) { links_ = m; }
  void begin(const begin_segment_msg& m);
  void truncate(const truncate_segment_msg& m);
  void truncate(const truncate_evaluation_msg& m);
  void stop_admitting();
  void evaluate(const evaluate_msg& m);
  void credit(const credit_msg& m);
  void loaded(load_reply_msg m);
  std::string describe() const;
  actor_context& context() { return *context_; }
  const std::string& who() const { return who_; }

private:
  void restart(message_key first, std::int64_t minibatches, int microbatches, std::int64_t credit);
  void pump();
  void trace_wait();
  void request_ahead();
  void admit(load_reply_msg m);
  message_key key_at(std::int64_t index) const;
  bool is_ours(std::int64_t index) const;
  std::int64_t next_of_ours(std::int64_t index) const;

  caf::event_based_actor* self_ = nullptr;
  context_ptr context_;
  std::string who_ = "the source";
  connect_source_msg links_;
  std::shared_ptr<microbatch_loader> training_loader_;
  std::shared_ptr<microbatch_loader> loader_; // the one in use
  segment_run_ptr run_;
  message_key base_; // of the first micro-batch
  int microbatches_ = 1;
  std::int64_t total_ = 0;   // micro-batches of the stretch, whoever admits them
  std::int64_t next_ = 0;    // first index not yet dealt with
  std::int64_t request_ = 0; // first index not yet asked for
  std::int64_t last_admitted_ = -1;
  std::int64_t admitted_ = 0;  // by this source
  std::int64_t requested_ = 0; // by this source
  std::int64_t credit_ = 0;
  std::int64_t returned_ = 0;
  bool paused_ = false;
  bool reported_ = true;
  std::map<std::int64_t, load_reply_msg> ready_; // loaded, by index
  source_tracer trace_;
};

message_key source::key_at(std::int64_t index) const {
  auto key = base_;
  key.since_drain = index / microbatches_;
  key.minibatch = base_.minibatch + key.since_drain;
  key.microbatch = static_cast<std::int32_t>(index % microbatches_);
  return key;
}

bool source::is_ours(std::int64_t index) const {
  const auto& ours = links_.replicas;
  return ours.size() == links_.first.replicas.size() ||
         std::find(ours.begin(), ours.end(), links_.first.deal(key_at(index))) != ours.end();
}

std::int64_t source::next_of_ours(std::int64_t index) const {
  while (index < total_ && !is_ours(index))
    ++index;
  return index;
}

// `credit` is for all replicas of stage 0; each source holds its replicas' share.
void source::restart(message_key first, std::int64_t minibatches, int microbatches, std::int64_t credit) {
  base_ = first;
  microbatches_ = microbatches;
  total_ = minibatches * microbatches;
  admitted_ = requested_ = returned_ = 0;
  last_admitted_ = -1;
  next_ = request_ = next_of_ours(0);
  credit_ = credit * static_cast<std::int64_t>(links_.replicas.size()) /
            static_cast<std::int64_t>(links_.first.replicas.size());
  paused_ = false;
  ready_.clear();
  reported_ = false;
  trace_.wait_ends();
  pump();
}

void source::begin(const begin_segment_msg& m) {
  run_ = m.run;
  loader_ = training_loader_;
  restart({.segment = run_->segment, .minibatch = run_->first_minibatch}, run_->plan.minibatches,
          run_->plan.microbatches, run_->plan.source_credit());
}

void source::evaluate(const evaluate_msg& m) {
  loader_ = std::make_shared<microbatch_loader>(*m.data, m.batch, 1, context_->services.options.seed, false);
  restart({.segment = m.segment, .mode = phase::evaluation}, loader_->plan().per_epoch(), 1, m.credit);
}

void source::truncate(const truncate_segment_msg& m) {
  run_ = m.run;
  total_ = run_->plan.minibatches * microbatches_;
  paused_ = false;
  pump();
}

void source::truncate(const truncate_evaluation_msg& m) {
  total_ = std::min(total_, m.batches);
  paused_ = false;
  pump();
}

// A minibatch whose first micro-batch is in the pipeline is admitted whole, by this source and the others.
void source::stop_admitting() {
  paused_ = true;
  trace_.wait_ends();
  caf::anon_send(context_->coordinator,
                 admitted_msg{base_.segment, last_admitted_ < 0 ? 0 : last_admitted_ / microbatches_ + 1});
}

void source::credit(const credit_msg& m) {
  check(m.key.mode == base_.mode, "a credit of another mode");
  ++credit_;
  ++returned_;
  ++context_->progress;
  pump();
}

void source::loaded(load_reply_msg m) {
  if (m.key.segment != base_.segment || m.key.mode != base_.mode) return; // asked for before a drain cut the run short
  const auto index = m.key.since_drain * microbatches_ + m.key.microbatch;
  ++context_->progress;
  ready_.emplace(index, std::move(m));
  pump();
}

void source::request_ahead() {
  const auto ahead = static_cast<std::int64_t>(2 * links_.loaders.size());
  while (request_ < total_ && requested_ < admitted_ + ahead) {
    const auto& loader = links_.loaders[static_cast<std::size_t>(requested_) % links_.loaders.size()];
    caf::anon_send(loader, load_request_msg{loader_, key_at(request_)});
    ++requested_;
    request_ = next_of_ours(request_ + 1);
  }
}

void source::pump() {
  if (!loader_) return;
  request_ahead();
  while (!paused_ && credit_ > 0 && next_ < total_) {
    const auto it = ready_.find(next_);
    if (it == ready_.end()) break;
    trace_.wait_ends();
    auto m = std::move(it->second);
    ready_.erase(it);
    --credit_;
    ++admitted_;
    last_admitted_ = next_;
    next_ = next_of_ours(next_ + 1);
    admit(std::move(m));
    request_ahead();
  }
  trace_wait();
  if (reported_ || paused_ || next_ < total_ || returned_ < admitted_) return;
  reported_ = true;
  caf::anon_send(context_->coordinator, part_done_msg{who_});
}

void source::trace_wait() {
  if (paused_ || next_ >= total_)
    trace_.wait_ends();
  else
    trace_.wait_begins(key_at(next_), credit_ > 0 ? wait_reason::no_input : wait_reason::no_credit);
}

void source::admit(load_reply_msg m) {
  auto& data = m.data;
  trace_.admitted(m.key, static_cast<std::int64_t>(data.input.bytes()));
  const auto& last = links_.last.at(static_cast<std::size_t>(links_.deal_last(m.key)));
  caf::anon_send(last, labels_msg{m.key, std::move(data.labels), data.samples, data.minibatch_samples});
  activation_msg activation{m.key, 0, data.samples, {}};
  activation.tensors.push_back({"input", std::move(data.input)});
  caf::anon_send(links_.first.of(m.key), std::move(activation));
}

std::string source::describe() const {
  if (next_ >= total_) return "the source has admitted everything";
  if (credit_ <= 0) return "the source has no credit: it waits for stage 0 to finish a backward";
  return "the source waits for its loaders: minibatch " + std::to_string(key_at(next_).minibatch);
}

caf::behavior source_behavior(caf::stateful_actor<source>* self, context_ptr context) {
  self->state.start(self, std::move(context));
  const auto run = [self](auto body) { guarded(self->state.context(), self->state.who(), body); };
  return {
      [=](const connect_source_msg& m) { self->state.connect(m); },
      [=](const begin_segment_msg& m) { run([&] { self->state.begin(m); }); },
      [=](const truncate_segment_msg& m) { run([&] { self->state.truncate(m); }); },
      [=](const truncate_evaluation_msg& m) { run([&] { self->state.truncate(m); }); },
      [=](const stop_admitting_msg&) { run([&] { self->state.stop_admitting(); }); },
      [=](const evaluate_msg& m) { run([&] { self->state.evaluate(m); }); },
      [=](const credit_msg& m) { run([&] { self->state.credit(m); }); },
      [=](load_reply_msg& m) { run([&] { self->state.loaded(std::move(m)); }); },
      [=](const describe_wait_msg&) {
        caf::anon_send(self->state.context().coordinator, wait_description_msg{self->state.describe()});
      },
  };
}

caf::behavior loader_behavior(caf::event_based_actor*, context_ptr context, caf::actor source_handle) {
  return {[=](const load_request_msg& m) {
    guarded(*context, "a loader", [&] {
      caf::anon_send(source_handle, load_reply_msg{m.key, m.loader->load(m.key.minibatch, m.key.microbatch)});
    });
  }};
}

} // namespace

caf::actor spawn_source(caf::actor_system& system, context_ptr context) {
  return system.spawn(source_behavior, std::move(context));
}

caf::actor spawn_loader(caf::actor_system& system, context_ptr context, const caf::actor& source_handle) {
  return system.spawn<caf::detached>(loader_behavior, std::move(context), source_handle);
}

} // namespace penstock::actors
