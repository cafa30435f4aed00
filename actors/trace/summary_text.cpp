// The summary as tables and sentences for people.
#include "actors/trace/summary.hpp"
#include "actors/trace/table.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace penstock::actors {

namespace {

using row = table_row;

std::string share_table(const trace_summary& s, const trace_header& header) {
  std::vector<row> rows{{"stage", "layers", "replicas", "busy", "forward", "backward", "update", "evaluate"}};
  for (std::size_t w = 1; w < wait_reasons; ++w)
    rows[0].emplace_back(name_of(static_cast<wait_reason>(w)));
  for (const char* title : {"other", "bubble", "ideal"})
    rows[0].emplace_back(title);
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto& stage = s.stages[i];
    row cells{std::to_string(i),     layers_of(header, i),   std::to_string(header.replicas[i]),
              percent(stage.busy()), percent(stage.forward), percent(stage.backward),
              percent(stage.update), percent(stage.evaluate)};
    for (std::size_t w = 1; w < wait_reasons; ++w)
      // The replica waits for an all-reduce or runs it: either way it is what holds the stage up.
      cells.push_back(
          percent(stage.waits[w] + (static_cast<wait_reason>(w) == wait_reason::all_reduce ? stage.all_reduce : 0)));
    cells.push_back(percent(stage.other()));
    cells.push_back(percent(stage.bubble()));
    cells.push_back(stage.ideal_bubble ? percent(*stage.ideal_bubble) : "-");
    rows.push_back(std::move(cells));
  }
  return table(rows, 2);
}

std::string time_table(const trace_summary& s) {
  std::vector<row> rows{{"stage", "forward ms", "backward ms", "update ms", "mailbox mean", "p99", "max",
                         "staleness (updates: micro-batches)"}};
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto& stage = s.stages[i];
    std::string staleness;
    for (const auto& [updates, count] : stage.staleness)
      staleness += (staleness.empty() ? "" : ", ") +
                   format("%lld: %lld", static_cast<long long>(updates), static_cast<long long>(count));
    rows.push_back({std::to_string(i), format("%.3f", stage.forward_seconds * 1e3),
                    format("%.3f", stage.backward_seconds * 1e3), format("%.3f", stage.update_seconds * 1e3),
                    format("%.2f", stage.depth_mean), std::to_string(stage.depth_p99), std::to_string(stage.depth_max),
                    staleness.empty() ? "-" : staleness});
  }
  return table(rows, 1, last_column::left);
}

std::string place_name(int stage) {
  return stage == -1 ? "source" : stage == -2 ? "metrics" : "stage " + std::to_string(stage);
}

std::string edge_table(const trace_summary& s) {
  std::vector<row> rows{{"edge", "messages", "bytes", "bytes/message"}};
  for (const auto& [ends, edge] : s.edges)
    rows.push_back({place_name(ends.first) + " -> " + place_name(ends.second), std::to_string(edge.messages),
                    std::to_string(edge.bytes), std::to_string(edge.bytes / std::max<std::int64_t>(1, edge.messages))});
  return table(rows, 1);
}

std::string name_of(const link_summary& link) {
  std::string name = place_name(link.from_stage) + " -> " + place_name(link.to_stage);
  if (link.from_rank >= 0 || link.to_rank >= 0)
    name += ", rank " + std::to_string(link.from_rank) + " -> " + std::to_string(link.to_rank);
  return name;
}

std::string link_table(const trace_summary& s) {
  std::vector<row> rows{{"link", "messages", "bytes", "bytes/message", "median ms", "max ms", "MB/s"}};
  for (const auto& link : s.links)
    rows.push_back({name_of(link), std::to_string(link.messages), std::to_string(link.bytes),
                    std::to_string(link.bytes / std::max<std::int64_t>(1, link.messages)),
                    format("%.3f", link.median_seconds * 1e3), format("%.3f", link.max_seconds * 1e3),
                    format("%.1f", link.bytes_per_second * 1e-6)});
  std::string text = table(rows, 1);
  if (const auto* slowest = slowest_link(s.links))
    text += "slowest link: " + name_of(*slowest) +
            format(": %.3f ms a message, %.1f MB/s\n", slowest->median_seconds * 1e3, slowest->bytes_per_second * 1e-6);
  return text;
}

std::string worker_table(const trace_summary& s, const trace_header& header) {
  const bool has_ranks = rank_count(header) > 0;
  std::vector<row> rows{{has_ranks ? "rank" : "replica", "busy", "to siblings'", "others waited s"}};
  for (const auto& w : s.workers)
    rows.push_back({name_of(w, header), percent(w.busy), format("%.2f", w.against_siblings),
                    format("%.3f", w.waited_for_seconds)});
  std::string text = table(rows, 1);
  const auto* slowest = slowest_worker(s.workers);
  if (slowest == nullptr) return text;
  text.append(has_ranks ? "slowest rank: " : "slowest replica: ").append(name_of(*slowest, header));
  if (slowest->is_straggler)
    text += format(": a micro-batch takes %.2f times its siblings' time", slowest->against_siblings) +
            (has_ranks ? " on " + actor_name(header, slowest->stage, slowest->replica) : "");
  else
    text += format(": the others waited %.3f s for it, ", slowest->waited_for_seconds) + "longer than for any other";
  return text + "\n";
}

std::string all_reduce_lines(const trace_summary& s) {
  std::string text;
  for (std::size_t i = 0; i < s.stages.size(); ++i)
    if (s.stages[i].all_reduce_seconds > 0)
      text += "all-reduce of stage " + std::to_string(i) + format(": %.3f s, ", s.stages[i].all_reduce_seconds) +
              percent(s.stages[i].all_reduce_hidden) + " of it behind backwards\n";
  return text;
}

std::string path_line(const trace_summary& s) {
  constexpr std::size_t most_parts = 8;
  std::string text = "critical path: ";
  double rest = 1;
  for (std::size_t i = 0; i < std::min(most_parts, s.critical_path.size()); ++i) {
    const auto& part = s.critical_path[i];
    text.append(i > 0 ? ", " : "").append(name_of(part)).append(" ").append(percent(part.share));
    rest -= part.share;
  }
  if (s.critical_path.size() > most_parts) text += ", the rest " + percent(rest);
  return text + "\n";
}

std::string rank_line(const trace_header& header) {
  if (rank_count(header) == 0) return {};
  const std::set<std::string> hosts(header.hosts.begin(), header.hosts.end());
  std::string text = header.rank < 0 ? format("%d ranks", rank_count(header))
                                     : format("rank %d of %d alone", header.rank, rank_count(header));
  if (!hosts.empty()) text += format(" on %zu hosts", hosts.size());
  text += '\n';
  if (header.clock_conflict_ns > 0)
    text += format("their clocks disagree by up to %.1f us", static_cast<double>(header.clock_conflict_ns) * 1e-3) +
            ": what lies between two ranks is no surer than that\n";
  return text;
}

} // namespace

std::string to_text(const trace_summary& s, const trace_file& file) {
  const auto& h = file.header;
  std::string text = h.model;
  text += ", schedule " + h.schedule;
  text += format(", %zu stages, micro-batches per minibatch: %d", h.replicas.size(), h.microbatches);
  if (h.minibatches >= 0)
    text += format(", %lld minibatches",
                   static_cast<long long>(h.minibatches - std::max<std::int64_t>(0, h.first_minibatch)));
  text += '\n';
  if (!file.complete()) text.append("the trace is incomplete: ").append(file.missing).append("\n");
  text += rank_line(h);
  text += format("%.3f s of training; ", s.run_seconds);
  text += s.is_steady ? format("steady state is %.3f s in %d sections, ", s.steady_seconds, s.sections)
                      : format("no steady state, so of all %.3f s: ", s.steady_seconds);
  text += format("%.2f minibatches/s\n", s.minibatches_per_second);
  if (s.is_steady)
    text += "(of each segment between drains: after every replica's first backward, until stage 0 begins its last "
            "forward)\n";
  text.append("\n").append(share_table(s, h)).append("\n").append(time_table(s));
  if (!s.edges.empty()) text.append("\n").append(s.links.empty() ? edge_table(s) : link_table(s));
  if (s.workers.size() > 1) text.append("\n").append(worker_table(s, h));
  text += all_reduce_lines(s);
  if (!s.critical_path.empty()) text += path_line(s);
  return text;
}

} // namespace penstock::actors
