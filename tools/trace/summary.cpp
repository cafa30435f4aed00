// Sums spans over the steady sections and plays the schedule with the measured times beside them.
#include "tools/trace/summary.hpp"

#include "actors/trace/plan_epochs.hpp"
#include "planner/simulate.hpp"
#include "tools/trace/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace penstock::actors {

namespace {

constexpr double seconds_per_ns = 1e-9;

/// What one stretch needs for its section.
struct stretch_bounds {
  std::map<std::pair<int, int>, std::int64_t> first_backward_end; // by stage and replica
  std::map<int, std::int64_t> last_forward_begin;                 // by replica of stage 0
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
};

std::map<int, stretch_bounds> bounds_of(const std::vector<trace_record>& records) {
  std::map<int, stretch_bounds> stretchs;
  for (const auto& r : records) {
    if (!is_training(r)) continue;
    auto& bounds = stretchs[r.stretch];
    bounds.begin = std::min(bounds.begin, r.begin_ns);
    bounds.end = std::max(bounds.end, r.end_ns);
    if (makes_input_gradient(r)) {
      const auto [at, is_new] = bounds.first_backward_end.try_emplace({r.stage, r.replica}, r.end_ns);
      if (!is_new) at->second = std::min(at->second, r.end_ns);
    }
    if (r.kind == span_kind::forward && r.stage == 0) {
      auto& last = bounds.last_forward_begin[r.replica];
      last = std::max(last, r.begin_ns);
    }
  }
  return stretchs;
}

/// Segments as they are, for a run too short to be steady.
std::vector<time_section> whole_sections(const std::vector<trace_record>& records) {
  std::vector<time_section> sections;
  for (const auto& [id, bounds] : bounds_of(records))
    sections.emplace_back(bounds.begin, bounds.end);
  // Segments follow one another in a run; in a file that says otherwise they must not be counted twice.
  return united(std::move(sections));
}

void add_shares(const trace_header& header, const std::vector<trace_record>& records,
                const std::vector<time_section>& sections, std::vector<stage_summary>& stages) {
  const auto shares = shares_of(header, records, sections);
  for (std::size_t i = 0; i < stages.size(); ++i)
    static_cast<stage_shares&>(stages[i]) = shares[i];
}

/// All-reduces and backwards of one replica.
struct replica_sums {
  std::vector<time_section> all_reduces, backwards;
};

void add_all_reduces(const std::vector<trace_record>& records, std::vector<stage_summary>& stages) {
  std::map<std::pair<int, int>, replica_sums> replicas;
  for (const auto& r : records) {
    if (r.stage < 0) continue;
    if (r.kind == span_kind::all_reduce) replicas[{r.stage, r.replica}].all_reduces.emplace_back(r.begin_ns, r.end_ns);
    if (makes_input_gradient(r) || makes_weight_gradient(r))
      replicas[{r.stage, r.replica}].backwards.emplace_back(r.begin_ns, r.end_ns);
  }
  std::vector<double> hidden(stages.size());
  for (auto& [who, time] : replicas) {
    const auto stage = static_cast<std::size_t>(who.first);
    const auto sums = united(std::move(time.all_reduces));
    stages[stage].all_reduce_seconds += static_cast<double>(length_of(sums)) * seconds_per_ns;
    hidden[stage] += static_cast<double>(length_of(common(sums, united(std::move(time.backwards))))) * seconds_per_ns;
  }
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (stages[i].all_reduce_seconds > 0) stages[i].all_reduce_hidden = hidden[i] / stages[i].all_reduce_seconds;
}

/// Of spans that lie within the sections, or of all where none does.
void add_action_times(const std::vector<trace_record>& records, const std::vector<time_section>& sections,
                      std::vector<stage_summary>& stages) {
  struct lengths {
    std::vector<std::int64_t> within, all;
    action_time take() {
      auto& of = within.empty() ? all : within;
      if (of.empty()) return {};
      const double sum = std::accumulate(of.begin(), of.end(), 0.0);
      const double mean = sum / static_cast<double>(of.size()) * seconds_per_ns;
      return {median(std::move(of)) * seconds_per_ns, mean};
    }
  };
  std::vector<std::array<lengths, planner::action_kinds>> by_kind(stages.size());
  for (const auto& r : records) {
    if (!is_training(r)) continue;
    auto& seen = by_kind[static_cast<std::size_t>(r.stage)][static_cast<std::size_t>(action_of(r.kind))];
    const auto length = r.end_ns - r.begin_ns;
    seen.all.push_back(length);
    if (length > 0 && time_within(sections, r.begin_ns, r.end_ns) == length) seen.within.push_back(length);
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto take = [&](planner::action_kind kind) { return by_kind[i][static_cast<std::size_t>(kind)].take(); };
    const auto whole = take(planner::action_kind::backward);
    const auto input = take(planner::action_kind::backward_input);
    stages[i].forward_time = take(planner::action_kind::forward);
    stages[i].weight_time = take(planner::action_kind::backward_weight);
    // A stage does one or the other.
    stages[i].backward_time = {whole.median + input.median + stages[i].weight_time.median,
                               whole.mean + input.mean + stages[i].weight_time.mean};
    stages[i].update_time = take(planner::action_kind::update);
  }
}

/// The update that sums a minibatch is the last of its stretch whose group begins at or before it.
void add_staleness(const std::vector<trace_record>& records, std::vector<stage_summary>& stages) {
  std::map<std::pair<int, int>, std::map<std::int64_t, std::int64_t>> written; // (stretch, stage): group -> version
  for (const auto& r : records)
    if (r.stage >= 0 && r.kind == span_kind::update) written[{r.stretch, r.stage}][r.minibatch] = r.version_written;
  for (const auto& r : records) {
    if (r.stage < 0 || r.kind != span_kind::forward || r.version_read < 0) continue;
    const auto updates = written.find({r.stretch, r.stage});
    if (updates == written.end()) continue;
    const auto after = updates->second.upper_bound(r.minibatch);
    if (after == updates->second.begin()) continue;
    ++stages[static_cast<std::size_t>(r.stage)].staleness[std::prev(after)->second - 1 - r.version_read];
  }
}

void add_depths(const std::vector<trace_record>& records, std::vector<stage_summary>& stages) {
  std::vector<std::vector<int>> depths(stages.size());
  for (const auto& r : records)
    if (r.stage >= 0 && r.mailbox_depth >= 0) depths[static_cast<std::size_t>(r.stage)].push_back(r.mailbox_depth);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    auto& d = depths[i];
    if (d.empty()) continue;
    std::sort(d.begin(), d.end());
    double sum = 0;
    for (const int depth : d)
      sum += depth;
    stages[i].depth_mean = sum / static_cast<double>(d.size());
    stages[i].depth_p99 = d[(d.size() * 99 + 99) / 100 - 1];
    stages[i].depth_max = d.back();
  }
}

/// The records that a perfect runtime would leave: one stretch of the schedule with the measured mean times.
std::vector<trace_record> ideal_records(const trace_header& header, const std::vector<stage_summary>& stages,
                                        std::int64_t minibatches) {
  std::vector<planner::stage_times> times;
  for (const auto& s : stages)
    times.push_back({.forward = s.forward_time.mean / seconds_per_ns,
                     .backward = s.backward_time.mean / seconds_per_ns,
                     .update = s.update_time.mean / seconds_per_ns,
                     .weight = s.weight_time.mean / seconds_per_ns});
  const auto played = planner::simulate(planner::resolve_schedule(request_of(header.plan, minibatches)), times);
  std::vector<trace_record> records;
  records.reserve(played.spans.size());
  for (const auto& span : played.spans) {
    trace_record r;
    r.kind = span_of(span.what.kind);
    r.stage = static_cast<std::int16_t>(span.stage);
    r.replica = static_cast<std::int16_t>(span.replica);
    r.begin_ns = std::llround(span.begin);
    r.end_ns = std::llround(span.end);
    r.stretch = 0;
    records.push_back(r);
  }
  return records;
}

std::int64_t longest_stretch(const std::vector<trace_record>& records) {
  std::map<int, time_section> range; // first and last minibatch of each stretch
  for (const auto& r : records) {
    if (!is_training(r) || r.minibatch < 0) continue;
    auto& [least, most] = range.try_emplace(r.stretch, r.minibatch, r.minibatch).first->second;
    least = std::min(least, r.minibatch);
    most = std::max(most, r.minibatch);
  }
  std::int64_t longest = 0;
  for (const auto& [id, ends] : range)
    longest = std::max(longest, ends.second - ends.first + 1);
  return longest;
}

/// Leaves ideal_bubble empty where the header's schedule cannot be made or would be out of all proportion.
void add_ideal(const trace_header& header, const std::vector<trace_record>& recorded, bool is_steady,
               std::vector<stage_summary>& stages) {
  // Enough for a steady state; more would only take time.
  constexpr std::int64_t most_minibatches = 500;
  const auto minibatches = std::min(most_minibatches, longest_stretch(recorded));
  constexpr double most_seconds = 1e6; // of one span; the clock of a longer simulation would overflow
  for (const auto& s : stages)
    if (s.forward_time.mean + s.backward_time.mean + s.update_time.mean > most_seconds) return;
  const auto actions = minibatches * header.plan.microbatches * static_cast<std::int64_t>(stages.size());
  if (minibatches < 1 || actions > 1000 + 2 * static_cast<std::int64_t>(recorded.size())) return;
  try {
    const auto records = ideal_records(header, stages, minibatches);
    const auto sections = is_steady ? steady_sections(header, records) : whole_sections(records);
    if (sections.empty()) return;
    std::vector<stage_summary> ideal(stages.size());
    add_shares(header, records, sections, ideal);
    for (std::size_t i = 0; i < stages.size(); ++i)
      stages[i].ideal_bubble = ideal[i].bubble();
  } catch (const std::logic_error&) {
    // std::invalid_argument is one: a schedule that this version does not know has no ideal.
  }
}

} // namespace

std::vector<time_section> steady_sections(const trace_header& header, const std::vector<trace_record>& records) {
  std::size_t replicas = 0;
  for (const auto& stage : header.plan.stages)
    replicas += static_cast<std::size_t>(stage.replicas);
  std::vector<time_section> sections;
  for (const auto& [id, bounds] : bounds_of(records)) {
    if (bounds.first_backward_end.size() < replicas || bounds.last_forward_begin.empty()) continue;
    std::int64_t begin = 0;
    for (const auto& [who, end] : bounds.first_backward_end)
      begin = std::max(begin, end);
    std::int64_t end = std::numeric_limits<std::int64_t>::max();
    for (const auto& [replica, last] : bounds.last_forward_begin)
      end = std::min(end, last);
    // Segments come in the order of time; a trace that says otherwise is cut so that sections do not overlap.
    if (!sections.empty()) begin = std::max(begin, sections.back().second);
    if (begin < end) sections.emplace_back(begin, end);
  }
  return sections;
}

namespace {

double seconds_of_training(const std::vector<trace_record>& records) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  for (const auto& r : records) {
    if (!is_training(r)) continue;
    begin = std::min(begin, r.begin_ns);
    end = std::max(end, r.end_ns);
  }
  return begin < end ? static_cast<double>(end - begin) * seconds_per_ns : 0;
}

trace_summary summarize_epoch(const trace_header& header, const std::vector<trace_record>& records) {
  trace_summary result;
  result.stages.resize(header.plan.stages.size());
  auto sections = steady_sections(header, records);
  result.is_steady = !sections.empty();
  if (!result.is_steady) sections = whole_sections(records);
  result.sections = static_cast<int>(sections.size());
  const auto length = length_of(sections);
  result.steady_seconds = static_cast<double>(length) * seconds_per_ns;
  for (const auto& r : records)
    if (r.kind == span_kind::send) {
      auto& edge = result.edges[{r.stage, r.peer}];
      ++edge.messages;
      edge.bytes += std::max<std::int64_t>(0, r.bytes);
    }
  result.run_seconds = seconds_of_training(records);
  result.step = step_time_of(header, records);
  result.source = summarize_source(records);
  add_shares(header, records, sections, result.stages);
  add_all_reduces(records, result.stages);
  add_action_times(records, sections, result.stages);
  add_staleness(records, result.stages);
  add_depths(records, result.stages);
  add_ideal(header, records, result.is_steady, result.stages);
  const auto messages = pair_messages(records);
  const span_causes causes(header, records, messages);
  result.links = summarize_links(header, messages);
  result.workers = summarize_workers(header, records, causes, sections);
  result.critical_path = critical_path(header, causes, sections);
  return result;
}

} // namespace

trace_summary summarize(const trace_file& file) {
  if (file.header.changes.empty()) return summarize_epoch(file.header, file.records);
  trace_summary result;
  result.is_steady = true;
  for (const auto& epoch : split_by_epoch(file.header, file.records)) {
    if (std::none_of(epoch.records.begin(), epoch.records.end(), is_training)) continue;
    auto& own = result.epochs.emplace_back(plan_epoch_summary{epoch.number, {}}).own;
    own = summarize_epoch(epoch.header, epoch.records);
    result.steady_seconds += own.steady_seconds;
    result.sections += own.sections;
    result.is_steady = result.is_steady && own.is_steady;
  }
  result.is_steady = result.is_steady && result.sections > 0;
  result.run_seconds = seconds_of_training(file.records);
  result.step = step_time_of(file.header, file.records);
  result.source = summarize_source(file.records);
  return result;
}

} // namespace penstock::actors
