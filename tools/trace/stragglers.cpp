// Compares replicas of one stage, and asks of every wait whose work ended it.
#include "tools/trace/stragglers.hpp"

#include "tools/trace/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace penstock::actors {

namespace {

using place = std::pair<int, int>; // stage, replica

constexpr double least_ratio = 1.1;
constexpr double least_deviations = 3; // standard errors of the difference between two means

/// Forward and backward of one replica, in nanoseconds.
struct compute_times {
  std::array<sample_moments, 4> by_kind; // forward, backward and the parts of a split one
  double mean() const {
    double sum = 0;
    for (const auto& m : by_kind)
      sum += m.mean();
    return sum;
  }
  double squared_error() const {
    double sum = 0;
    for (const auto& m : by_kind)
      if (m.count() > 0) sum += m.variance() / static_cast<double>(m.count());
    return sum;
  }
};

std::map<place, compute_times> compute_times_of(const std::vector<trace_record>& records,
                                                const std::vector<time_section>& sections) {
  std::map<place, compute_times> times;
  for (const auto& r : records) {
    if (!is_training(r) || r.kind == span_kind::update) continue;
    const auto length = r.end_ns - r.begin_ns;
    if (length <= 0 || time_within(sections, r.begin_ns, r.end_ns) < length) continue;
    times[{r.stage, r.replica}].by_kind[static_cast<std::size_t>(action_of(r.kind))].add(static_cast<double>(length));
  }
  return times;
}

/// The replica's mean against the median of its siblings' means, and whether that is more than chance.
std::pair<double, bool> compare(const place& who, int replicas, const std::map<place, compute_times>& times) {
  const auto mine = times.find(who);
  if (mine == times.end() || mine->second.mean() <= 0) return {1, false};
  std::vector<double> means;
  double squared_error = mine->second.squared_error();
  for (int r = 0; r < replicas; ++r)
    if (const auto other = times.find({who.first, r}); r != who.second && other != times.end()) {
      means.push_back(other->second.mean());
      squared_error = std::max(squared_error, mine->second.squared_error() + other->second.squared_error());
    }
  if (means.empty()) return {1, false};
  const double usual = median(std::move(means));
  if (usual <= 0) return {1, false};
  const double slower = mine->second.mean() - usual;
  const bool is_sure = mine->second.by_kind[1].count() + mine->second.by_kind[2].count() > 1 &&
                       slower > least_deviations * std::sqrt(squared_error);
  return {mine->second.mean() / usual, is_sure && mine->second.mean() / usual >= least_ratio};
}

/// Time of the wait, within the sections, before what ended it had been computed, and who computed that.
std::pair<std::int64_t, const trace_record*> blame(const trace_record& wait, const span_causes& causes,
                                                   const std::vector<time_section>& sections) {
  const trace_record* next = causes.next_on(wait.stage, wait.replica, wait.end_ns);
  if (next == nullptr) return {0, nullptr};
  auto cause = causes.of(*next);
  if (cause.kind == span_cause::what::version) cause = causes.of(*cause.span);
  if (cause.span == nullptr || cause.kind == span_cause::what::previous) return {0, nullptr};
  return {time_within(sections, wait.begin_ns, std::min(wait.end_ns, cause.span->end_ns)), cause.span};
}

} // namespace

std::vector<worker_summary> summarize_workers(const trace_header& header, const std::vector<trace_record>& records,
                                              const span_causes& causes, const std::vector<time_section>& sections) {
  std::vector<worker_summary> workers;
  std::map<place, std::size_t> worker_of;
  std::map<int, std::size_t> by_rank;
  std::map<place, std::size_t> by_place; // position and replica, of a run in one process
  std::vector<int> replicas_of;
  const auto times = compute_times_of(records, sections);
  for (int s = 0; s < static_cast<int>(header.plan.stages.size()); ++s)
    for (int r = 0; r < header.plan.stages[static_cast<std::size_t>(s)].replicas; ++r) {
      const int rank = rank_of(header, s, r);
      const int position = position_of(header, s);
      const auto at = rank < 0 ? by_place.try_emplace({position, r}, workers.size()).first->second
                               : by_rank.try_emplace(rank, workers.size()).first->second;
      const bool is_first = at == workers.size();
      if (is_first) {
        workers.push_back({.rank = rank});
        replicas_of.push_back(0);
      }
      worker_of[{s, r}] = at;
      replicas_of[at] += s == position ? 1 : 0; // what else it hosts shares its time
      const auto [ratio, is_sure] = compare({s, r}, header.plan.stages[static_cast<std::size_t>(s)].replicas, times);
      auto& worker = workers[at];
      if (!is_first && std::pair(is_sure, ratio) <= std::pair(worker.is_straggler, worker.against_siblings)) continue;
      worker.stage = s;
      worker.replica = r;
      worker.against_siblings = ratio;
      worker.is_straggler = is_sure;
    }
  std::map<place, std::vector<time_section>> busy;
  for (const auto& r : records) {
    if (r.stage < 0) continue;
    const auto mine = worker_of.at({r.stage, r.replica});
    if (is_training(r)) busy[{r.stage, r.replica}].emplace_back(r.begin_ns, r.end_ns);
    if (r.kind != span_kind::wait) continue;
    const auto [ns, by] = blame(r, causes, sections);
    if (by == nullptr) continue;
    const auto other = worker_of.at({by->stage, by->replica});
    if (other != mine) workers[other].waited_for_seconds += static_cast<double>(ns) * 1e-9;
  }
  const auto length = static_cast<double>(length_of(sections));
  for (auto& [who, spans] : busy)
    if (const auto mine = worker_of.at(who); length > 0)
      workers[mine].busy +=
          static_cast<double>(length_of(common(united(std::move(spans)), sections))) / length / replicas_of[mine];
  std::sort(workers.begin(), workers.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return workers;
}

const worker_summary* slowest_worker(const std::vector<worker_summary>& workers) {
  const worker_summary* slowest = nullptr;
  const auto rank = [](const worker_summary& w) {
    return std::pair(w.is_straggler ? w.against_siblings : 0, w.waited_for_seconds);
  };
  for (const auto& w : workers)
    if ((w.is_straggler || w.waited_for_seconds > 0) && (slowest == nullptr || rank(*slowest) < rank(w))) slowest = &w;
  return slowest;
}

std::string name_of(const worker_summary& worker, const trace_header& header) {
  if (worker.rank < 0) return worker_name(header, worker.stage, worker.replica);
  std::string name = "rank " + std::to_string(worker.rank);
  if (static_cast<std::size_t>(worker.rank) < header.hosts.size())
    name += " on " + header.hosts[static_cast<std::size_t>(worker.rank)];
  return name;
}

} // namespace penstock::actors
