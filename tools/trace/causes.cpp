// Finds spans by what they compute, and the latest of those that another one needs.
#include "tools/trace/causes.hpp"

#include <algorithm>
#include <stdexcept>

namespace penstock::actors {

namespace {

using what = span_cause::what;

void take_later(span_cause& last, what kind, const trace_record* span, std::int64_t ready_ns) {
  if (last.span != nullptr && last.ready_ns >= ready_ns) return;
  last = {kind, span, {}, ready_ns};
}

bool is_grouped(const trace_header& header) {
  try {
    return planner::schedule_of(header.plan).updates.per_minibatch_group;
  } catch (const std::invalid_argument&) {
    return false; // then updates of groups show only their first minibatch's backward as a cause
  }
}

/// A gradient comes from a whole backward or from its input's part: one kind for both.
span_kind sent_as(const trace_record& r) {
  return r.kind == span_kind::backward_input ? span_kind::backward : r.kind;
}

} // namespace

span_causes::span_causes(const trace_header& header, const std::vector<trace_record>& records,
                         const std::vector<message_ends>& messages)
    : header_(header), is_grouped_(is_grouped(header)) {
  for (const auto& r : records) {
    if (r.kind == span_kind::receive && r.stage == 0 && r.peer == -1)
      inputs_[{r.stretch, r.minibatch, r.microbatch}] = r.begin_ns;
    if (!is_training(r)) continue;
    by_end_.push_back(&r);
    if (r.kind == span_kind::update) {
      updates_[{r.stage, r.version_written}].push_back(&r);
    } else {
      by_worker_[{position_of(header, r.stage), r.replica}].push_back(&r);
      by_key_[{r.stretch, r.stage, r.minibatch, r.microbatch, sent_as(r)}] = &r;
    }
  }
  std::stable_sort(by_end_.begin(), by_end_.end(), [](auto* a, auto* b) { return a->end_ns < b->end_ns; });
  for (const auto& m : messages)
    if (m.send != nullptr && m.receive != nullptr) messages_.emplace(*key_of_message(*m.send), m);
}

std::int64_t span_causes::group_size(int stage) const {
  return is_grouped_ ? header_.plan.stages[static_cast<std::size_t>(stage)].replicas : 1;
}

std::int64_t span_causes::input_ns(const trace_record& span) const {
  if (span.stage != 0 || span.kind != span_kind::forward) return -1;
  const auto found = inputs_.find({span.stretch, span.minibatch, span.microbatch});
  return found == inputs_.end() ? -1 : found->second;
}

const trace_record* span_causes::last_before(std::int64_t time_ns) const {
  const auto after = std::upper_bound(by_end_.begin(), by_end_.end(), time_ns,
                                      [](std::int64_t time, const trace_record* r) { return time < r->end_ns; });
  return after == by_end_.begin() ? nullptr : *std::prev(after);
}

const trace_record* span_causes::next_on(int stage, int replica, std::int64_t time_ns) const {
  const auto found = by_worker_.find({position_of(header_, stage), replica});
  if (found == by_worker_.end()) return nullptr;
  const auto at = std::partition_point(found->second.begin(), found->second.end(),
                                       [&](const trace_record* r) { return r->begin_ns < time_ns; });
  return at == found->second.end() ? nullptr : *at;
}

void span_causes::add_previous(const trace_record& span, span_cause& last) const {
  const auto& all = by_worker_.at({position_of(header_, span.stage), span.replica});
  const auto at = std::partition_point(all.begin(), all.end(), [&](const trace_record* r) {
    return std::pair(r->begin_ns, r) < std::pair(span.begin_ns, &span);
  });
  if (at != all.begin()) take_later(last, what::previous, *std::prev(at), (*std::prev(at))->end_ns);
}

void span_causes::add_message(const trace_record& span, span_cause& last) const {
  if (span.kind == span_kind::backward_weight) return; // it takes none
  const int from = span.kind == span_kind::forward ? span.stage - 1 : span.stage + 1;
  const auto producer = by_key_.find({span.stretch, from, span.minibatch, span.microbatch, sent_as(span)});
  if (producer == by_key_.end()) return;
  const auto sent =
      messages_.find({span.stretch, span.minibatch, span.microbatch, static_cast<std::int16_t>(from), span.stage});
  const bool is_recorded = sent != messages_.end();
  const auto ready = is_recorded ? sent->second.receive->begin_ns : producer->second->end_ns;
  take_later(last, what::message, producer->second, ready);
  if (last.kind == what::message && is_recorded) last.message = sent->second;
}

void span_causes::add_version(const trace_record& forward, span_cause& last) const {
  const auto written = updates_.find({forward.stage, forward.version_read});
  if (written == updates_.end()) return;
  // Its own rank's update, where ranks record each theirs.
  const trace_record* update = written->second.front();
  for (const trace_record* other : written->second)
    if (rank_of(header_, other->stage, other->replica) == rank_of(header_, forward.stage, forward.replica) &&
        (update->replica != forward.replica || other->replica == forward.replica))
      update = other;
  take_later(last, what::version, update, update->end_ns);
}

span_cause span_causes::cause_of_update(const trace_record& update) const {
  span_cause last;
  const auto end = update.minibatch + group_size(update.stage);
  // In the order of keys, so all micro-batches' of the group are one range.
  auto at = by_key_.lower_bound({update.stretch, update.stage, update.minibatch, 0, span_kind::forward});
  for (; at != by_key_.end(); ++at) {
    const auto& [stretch, stage, minibatch, microbatch, kind] = at->first;
    if (stretch != update.stretch || stage != update.stage || minibatch >= end) break;
    if (makes_weight_gradient(*at->second)) take_later(last, what::sum, at->second, at->second->end_ns);
  }
  return last;
}

span_cause span_causes::of(const trace_record& span) const {
  if (span.kind == span_kind::update) return cause_of_update(span);
  span_cause last;
  add_previous(span, last);
  add_message(span, last);
  if (span.kind == span_kind::forward) add_version(span, last);
  return last;
}

} // namespace penstock::actors
