// Spans and transfers of a virtual machine as the records that the runtime would leave.
#include "tools/trace/simulated_trace.hpp"

#include "actors/trace/encoder.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace penstock::actors {

namespace {

using planner::action_kind;
using planner::simulated_span;
using planner::simulated_transfer;
using planner::transfer_kind;
using place = std::pair<int, int>; // stage, replica

std::int64_t ns(double seconds) {
  return std::llround(seconds * 1e9);
}

void check_run(const planner::schedule& s, const planner::machine_run& run, const simulated_run_names& names) {
  constexpr double most_seconds = 9e9; // nanoseconds fit in 64 bits
  if (!(run.makespan <= most_seconds))
    throw error("the simulated run takes " + std::to_string(run.makespan) + " s, a trace holds at most 9e9");
  if (run.busy.size() != s.stages.size()) throw error("the simulated run is of another schedule");
  if (run.spans.empty() && s.minibatches > 0) throw error("the simulated run was made without spans");
  for (const auto& stage : s.stages)
    if (stage.replicas > std::numeric_limits<std::int16_t>::max())
      throw error("a stage has " + std::to_string(stage.replicas) + " replicas, a trace holds at most 32767");
  if (!names.stage_layers.empty() && names.stage_layers.size() != s.stages.size())
    throw error("layers are named for " + std::to_string(names.stage_layers.size()) + " stages, wanted " +
                std::to_string(s.stages.size()));
}

trace_header header_of(const planner::schedule& s, const simulated_run_names& names) {
  trace_header h;
  h.model = names.model;
  h.plan.schedule = s.name;
  h.plan.microbatches = s.microbatches;
  h.plan.window = s.window;
  h.plan.chunks = s.chunks;
  for (const auto& from : s.stages) {
    auto& stage = h.plan.stages.emplace_back();
    stage.replicas = from.replicas;
    stage.in_flight = from.credit;
    stage.update_lag = from.update_lag;
    if (!names.stage_layers.empty()) set_layers(stage, names.stage_layers[h.plan.stages.size() - 1]);
  }
  h.stashes_weights = s.stashes_weights;
  h.vertical_sync = s.name == "pipedream-vertical-sync";
  h.first_minibatch = 0;
  return h;
}

trace_record record_at(span_kind kind, int stage, int replica, double begin, double end) {
  trace_record r;
  r.kind = kind;
  r.stage = static_cast<std::int16_t>(stage);
  r.replica = static_cast<std::int16_t>(replica);
  r.stretch = 0;
  r.begin_ns = ns(begin);
  r.end_ns = ns(end);
  return r;
}

/// Collects the records of one run, kind by kind.
class run_records {
public:
  run_records(const planner::schedule& s, const planner::machine_run& run) : schedule_(s), run_(run) {
    for (const auto& span : run.spans) {
      actions_[{position_of(s, span.stage), span.replica}].push_back(&span);
      if (span.what.kind == action_kind::update)
        version_ends_[{{span.stage, span.replica}, span.what.version}] = span.end;
    }
    for (const auto& transfer : run.transfers)
      if (transfer.what == transfer_kind::all_reduce) all_reduces_[transfer.stage].push_back(&transfer);
  }

  /// In the order of their ends.
  std::vector<trace_record> collect() {
    for (const auto& span : run_.spans)
      add_action(span);
    add_messages();
    for (const auto& [worker, spans] : actions_)
      add_gaps(worker, spans);
    std::stable_sort(records_.begin(), records_.end(), comes_before);
    return std::move(records_);
  }

private:
  void add_action(const simulated_span& span);
  void add_messages();
  void add_gaps(const place& worker, const std::vector<const simulated_span*>& spans);
  void add_waits(const place& where, const planner::action& head, double begin, double end);
  void add_exposed(const place& where, const planner::action* head, double begin, double end);
  bool updates_itself(const place& where) const;

  const planner::schedule& schedule_;
  const planner::machine_run& run_;
  std::map<place, std::vector<const simulated_span*>> actions_;       // by worker, in order of begin
  std::map<std::pair<place, std::int64_t>, double> version_ends_;     // when the replica wrote it
  std::map<int, std::vector<const simulated_transfer*>> all_reduces_; // of a stage, in order of begin
  std::vector<trace_record> records_;
};

void run_records::add_action(const simulated_span& span) {
  const bool is_update = span.what.kind == action_kind::update;
  auto r = record_at(span_of(span.what.kind), span.stage, span.replica, span.begin, span.end);
  if (is_update) {
    r.minibatch = span.what.minibatch * minibatches_per_update(schedule_, span.stage);
    r.version_read = span.what.version - 1;
    r.version_written = span.what.version;
  } else {
    r.minibatch = span.what.minibatch;
    r.microbatch = span.what.microbatch;
    r.version_read = span.what.version;
  }
  records_.push_back(r);
}

/// A message counts in the receiver's mailbox until the action that takes it begins.
void run_records::add_messages() {
  std::map<std::pair<place, transfer_kind>, std::vector<double>> taken;
  for (const auto& span : run_.spans)
    if (span.what.kind != action_kind::update && span.what.kind != action_kind::backward_weight)
      taken[{{span.stage, span.replica},
             span.what.kind == action_kind::forward ? transfer_kind::activation : transfer_kind::gradient}]
          .push_back(span.begin);
  std::vector<const simulated_transfer*> arrivals;
  for (const auto& t : run_.transfers)
    if (t.what != transfer_kind::all_reduce) arrivals.push_back(&t);
  std::stable_sort(arrivals.begin(), arrivals.end(), [](auto* a, auto* b) { return a->end < b->end; });
  std::map<std::pair<place, transfer_kind>, std::ptrdiff_t> arrived;
  for (const auto* t : arrivals) {
    auto sent = record_at(span_kind::send, t->stage, t->replica, t->begin, t->end);
    sent.minibatch = t->minibatch;
    sent.microbatch = t->microbatch;
    sent.bytes = std::llround(t->bytes);
    auto received = sent;
    sent.peer = static_cast<std::int16_t>(t->to_stage);
    records_.push_back(sent);
    const place to{t->to_stage, t->to_replica};
    const auto& begins = taken[{to, t->what}];
    const auto gone = std::upper_bound(begins.begin(), begins.end(), t->end) - begins.begin();
    const auto depth = std::max<std::ptrdiff_t>(0, arrived[{to, t->what}]++ - gone);
    received.kind = span_kind::receive;
    received.stage = static_cast<std::int16_t>(t->to_stage);
    received.replica = static_cast<std::int16_t>(t->to_replica);
    received.peer = static_cast<std::int16_t>(t->stage);
    received.begin_ns = received.end_ns;
    received.mailbox_depth = static_cast<std::int16_t>(std::min<std::ptrdiff_t>(depth, 32767));
    records_.push_back(received);
  }
}

/// Else the stage's first replica sums and updates for all.
bool run_records::updates_itself(const place& where) const {
  return version_ends_.contains({where, 1}); // the first that an update writes
}

void run_records::add_gaps(const place& worker, const std::vector<const simulated_span*>& spans) {
  // Whose turn it is in a gap: the next forward or backward, which an update before it may keep waiting.
  std::vector<const planner::action*> heads(spans.size() + 1);
  for (auto i = spans.size(); i-- > 0;)
    heads[i] = spans[i]->what.kind == action_kind::update ? heads[i + 1] : &spans[i]->what;
  double idle_from = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const auto stage = heads[i] != nullptr ? heads[i]->stage : spans[i]->stage; // of the worker's
    if (spans[i]->begin > idle_from) add_exposed({stage, worker.second}, heads[i], idle_from, spans[i]->begin);
    idle_from = std::max(idle_from, spans[i]->end);
  }
}

/// Splits an idle time into all-reduces and waits.
void run_records::add_exposed(const place& where, const planner::action* head, double begin, double end) {
  const auto found = all_reduces_.find(where.first);
  if (found != all_reduces_.end() && updates_itself(where)) {
    const auto& all = found->second;
    auto at = std::partition_point(all.begin(), all.end(), [&](const auto* t) { return t->end <= begin; });
    for (; at != all.end() && (*at)->begin < end; ++at) {
      const auto from = std::max(begin, (*at)->begin), to = std::min(end, (*at)->end);
      if (from >= to) continue;
      if (head != nullptr) add_waits(where, *head, begin, from);
      auto r = record_at(span_kind::all_reduce, where.first, where.second, from, to);
      r.minibatch = (*at)->minibatch * minibatches_per_update(schedule_, where.first);
      records_.push_back(r);
      begin = to;
    }
  }
  if (head != nullptr) add_waits(where, *head, begin, end);
}

/// First for the version, where the head reads one that is not there, then for its input.
void run_records::add_waits(const place& where, const planner::action& head, double begin, double end) {
  auto here = begin;
  const bool looks_it_up = head.kind == action_kind::forward || !schedule_.stashes_weights;
  const place writer{where.first, updates_itself(where) ? where.second : 0};
  if (const auto version = version_ends_.find({writer, head.version}); looks_it_up && version != version_ends_.end())
    here = std::clamp(version->second, begin, end);
  const auto add = [&](wait_reason reason, double from, double to) {
    if (ns(from) >= ns(to)) return;
    auto r = record_at(span_kind::wait, where.first, where.second, from, to);
    r.reason = reason;
    r.minibatch = head.minibatch;
    r.microbatch = head.microbatch;
    records_.push_back(r);
  };
  const bool is_replicated = schedule_.stages[static_cast<std::size_t>(where.first)].replicas > 1;
  add(is_replicated ? wait_reason::all_reduce : wait_reason::version_not_ready, begin, here);
  add(wait_reason::no_input, here, end);
}

} // namespace

std::string encode_simulated_trace(const planner::schedule& s, const planner::machine_run& run,
                                   const simulated_run_names& names) {
  check_run(s, run, names);
  std::string bytes;
  trace_encoder encoder(header_of(s, names));
  encoder.begin(bytes, 0, 1); // the same run gives the same bytes
  for (const auto& r : run_records(s, run).collect())
    encoder.add(bytes, r);
  encoder.end(bytes, ns(run.makespan), s.minibatches, 0, true);
  return bytes;
}

void write_simulated_trace(const std::filesystem::path& file, const planner::schedule& s,
                           const planner::machine_run& run, const simulated_run_names& names) {
  const auto bytes = encode_simulated_trace(s, run, names);
  atomic_file out(file);
  out.write(bytes);
  out.commit();
}

} // namespace penstock::actors
