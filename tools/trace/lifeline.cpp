// Picks one minibatch's records, or a few minibatches', and writes them down.
#include "tools/trace/lifeline.hpp"

#include "actors/trace/plan_epochs.hpp"
#include "kernels/check.hpp"
#include "planner/draw_timeline.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

namespace penstock::actors {

namespace {

constexpr double ms_per_ns = 1e-6;

std::string ms(std::int64_t ns) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%10.3f", static_cast<double>(ns) * ms_per_ns);
  return text.data();
}

std::string pad(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

[[noreturn]] void refuse_minibatch(const trace_file& file, const std::string& which) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = -1;
  for (const auto& r : file.records)
    if (r.stage >= 0 && r.kind == span_kind::forward && r.minibatch >= 0) {
      least = std::min(least, r.minibatch);
      most = std::max(most, r.minibatch);
    }
  if (most < 0) throw error("the trace holds no training: the run had no minibatch");
  throw error("the trace has no " + which + ", only " + std::to_string(least) + " to " + std::to_string(most));
}

/// Of the minibatch's forwards and backwards and of the update that holds it: all under the plan of one epoch.
struct minibatch_records {
  std::vector<const trace_record*> all; ///< in order of begin
  std::size_t epoch = 0;
};

/// Records of the minibatch: its forwards and backwards, and on every replica the update whose group holds it.
minibatch_records records_of(const trace_file& file, std::int64_t minibatch) {
  std::vector<const trace_record*> found;
  std::map<std::pair<int, int>, const trace_record*> updates; // last group that begins at or before it
  int stretch = -1;
  for (const auto& r : file.records)
    if (r.stage >= 0 && r.minibatch == minibatch && is_training(r) && r.kind != span_kind::update) {
      found.push_back(&r);
      stretch = r.stretch;
    }
  if (found.empty()) return {};
  const auto epoch = epoch_of(file.header, *found.back());
  std::erase_if(found, [&](const trace_record* r) { return epoch_of(file.header, *r) != epoch; });
  for (const auto& r : file.records) {
    if (r.stage < 0 || r.kind != span_kind::update || r.minibatch > minibatch || r.stretch != stretch) continue;
    const trace_record*& last = updates[{r.stage, r.replica}];
    if (last == nullptr || last->minibatch <= r.minibatch) last = &r;
  }
  for (const auto& [who, update] : updates)
    found.push_back(update);
  std::stable_sort(found.begin(), found.end(), [](const auto* a, const auto* b) { return a->begin_ns < b->begin_ns; });
  return {std::move(found), epoch};
}

/// When what a record needs was there: the neighbour's forward or backward, its own forward, its own input's part of
/// a split backward, its own last backward.
/// -1 where the trace does not say.
std::int64_t ready_ns(const trace_record& r, const std::vector<const trace_record*>& all, int stages) {
  const auto end_of = [&](auto is_of_kind, int stage, bool any_microbatch) {
    std::int64_t end = -1;
    for (const trace_record* other : all)
      if (is_of_kind(*other) && other->stage == stage &&
          (any_microbatch ? other->replica == r.replica : other->microbatch == r.microbatch))
        end = std::max(end, other->end_ns);
    return end;
  };
  const auto is_forward = [](const trace_record& other) { return other.kind == span_kind::forward; };
  if (r.kind == span_kind::forward) return end_of(is_forward, r.stage - 1, false);
  if (r.kind == span_kind::update) return end_of(makes_weight_gradient, r.stage, true);
  if (r.kind == span_kind::backward_weight) return end_of(makes_input_gradient, r.stage, false);
  return r.stage + 1 < stages ? end_of(makes_input_gradient, r.stage + 1, false) : end_of(is_forward, r.stage, false);
}

constexpr std::size_t what_width = 14;

std::string line_of(const trace_record& r, const trace_header& header, std::int64_t origin, std::int64_t ready) {
  std::string what(name_of(r.kind));
  if (header.plan.microbatches > 1 && r.kind != span_kind::update) {
    what += ' ';
    what += std::to_string(r.microbatch);
  }
  std::string line = ms(r.begin_ns - origin) + "  " + pad(actor_name(header, r.stage, r.replica), 18) + "  " +
                     pad(what, what_width) +
                     (ready < 0 ? pad("", 9) + "-" : ms(std::max<std::int64_t>(0, r.begin_ns - ready))) + "  " +
                     ms(r.end_ns - r.begin_ns) + "  ";
  line += r.version_read < 0 ? "-" : std::to_string(r.version_read);
  if (r.version_written >= 0) line += " -> " + std::to_string(r.version_written);
  return line;
}

/// One row a worker; "" where there is none of the minibatches.
std::string picture_of(const trace_header& header, const std::vector<trace_record>& records, std::int64_t from,
                       std::int64_t to, int width) {
  std::int64_t origin = -1;
  std::int64_t end = -1;
  for (const auto& r : records) {
    if (!is_training(r) || r.minibatch < from || r.minibatch >= to) continue;
    if (origin < 0) origin = r.begin_ns;
    end = std::max(end, r.end_ns);
  }
  if (origin < 0) return {};
  std::vector<planner::timeline_span> spans;
  // Others that ran in the same time are drawn too: the row shows what the replica did, not only what was asked for.
  for (const auto& r : records) {
    if (!is_training(r) || r.begin_ns >= end || r.end_ns <= origin) continue;
    spans.push_back({.stage = position_of(header, r.stage),
                     .replica = r.replica,
                     .kind = action_of(r.kind),
                     .minibatch = r.minibatch,
                     .begin = static_cast<double>(r.begin_ns - origin) * 1e-9,
                     .end = static_cast<double>(r.end_ns - origin) * 1e-9});
  }
  return planner::draw_timeline(spans, 0, std::max(1e-9, static_cast<double>(end - origin) * 1e-9), width,
                                header.plan.chunks > 1 ? "worker" : "stage");
}

} // namespace

std::string lifeline(const trace_file& file, std::int64_t minibatch) {
  const auto [records, epoch] = records_of(file, minibatch);
  if (records.empty()) refuse_minibatch(file, "minibatch " + std::to_string(minibatch));
  const auto header = epoch_headers(file.header).at(epoch);
  const auto origin = records.front()->begin_ns;
  std::string text = "minibatch " + std::to_string(minibatch) + " of " + header.model;
  if (!file.header.changes.empty()) text += ", plan epoch " + std::to_string(epoch);
  text += "\n  begin ms  " + pad("where", 18) + "  " + pad("what", what_width) + " queued ms      took ms  version\n";
  const auto stages = static_cast<int>(header.plan.stages.size());
  for (const trace_record* r : records) {
    text += line_of(*r, header, origin, ready_ns(*r, records, stages));
    text += '\n';
  }
  return text;
}

std::string timeline(const trace_file& file, std::int64_t from, std::int64_t to, int width) {
  std::string text;
  for_each_epoch(file.header, file.records, [&](std::size_t number, const trace_header& header, const auto& records) {
    const auto picture = picture_of(header, records, from, to, width);
    if (picture.empty()) return;
    if (!file.header.changes.empty()) text += name_of_epoch(number, header) + ":\n";
    text += picture;
  });
  if (text.empty()) refuse_minibatch(file, "minibatch from " + std::to_string(from) + " to " + std::to_string(to - 1));
  return text;
}

} // namespace penstock::actors
