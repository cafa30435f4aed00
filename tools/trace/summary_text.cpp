// The summary as tables and sentences for people.
#include "actors/trace/plan_epochs.hpp"
#include "kernels/text_table.hpp"
#include "tools/trace/summary.hpp"
#include "tools/trace/table.hpp"

#include <algorithm>
#include <iterator>
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
  for (const char* title : {"other", "bubble", "ideal bubble"})
    rows[0].emplace_back(title);
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto& stage = s.stages[i];
    row cells{std::to_string(i),     layers_of(header, i),   std::to_string(header.plan.stages[i].replicas),
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
  return table(rows, 2) +
         prose("(mean over replicas; what overlaps counts once, for the first of forward, backward, evaluate, update, "
               "waits, all-reduce; bubble: not busy; ideal: the bubble of the schedule with these times" +
               std::string(header.plan.chunks > 1 ? "; a worker is busy with one of its stages at a time, and the "
                                                    "bubble is the worker's"
                                                  : "") +
               ")\n");
}

std::string time_table(const trace_summary& s) {
  const bool is_split =
      std::any_of(s.stages.begin(), s.stages.end(), [](const auto& stage) { return stage.weight_time.mean > 0; });
  std::vector<row> rows{{"stage", "forward ms", "backward ms"}};
  if (is_split) rows[0].emplace_back("of it weights ms");
  for (const char* title :
       {"update ms", "mailbox mean", "mailbox p99", "mailbox max", "staleness (updates: micro-batches)"})
    rows[0].emplace_back(title);
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto& stage = s.stages[i];
    std::string staleness;
    for (const auto& [updates, count] : stage.staleness)
      staleness += (staleness.empty() ? "" : ", ") +
                   format("%lld: %lld", static_cast<long long>(updates), static_cast<long long>(count));
    row cells{std::to_string(i), format("%.3f", stage.forward_time.median * 1e3),
              format("%.3f", stage.backward_time.median * 1e3)};
    if (is_split) cells.push_back(format("%.3f", stage.weight_time.median * 1e3));
    for (const auto& cell :
         {format("%.3f", stage.update_time.median * 1e3), format("%.2f", stage.depth_mean),
          std::to_string(stage.depth_p99), std::to_string(stage.depth_max), staleness.empty() ? "-" : staleness})
      cells.push_back(cell);
    rows.push_back(std::move(cells));
  }
  return table(rows, 1, last_column::left) + prose("(times are medians of one micro-batch or update)\n");
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
                    link.bytes_per_second > 0 ? format("%.1f", link.bytes_per_second * 1e-6) : "-"});
  std::string text = table(rows, 1);
  if (const auto* slowest = slowest_link(s.links))
    text += prose("slowest link: " + name_of(*slowest) +
                  format(": %.1f MB/s while messages are under way, ", slowest->bytes_per_second * 1e-6) +
                  format("%.3f ms a message (median)\n", slowest->median_seconds * 1e3));
  return text;
}

std::string worker_table(const trace_summary& s, const trace_header& header) {
  const bool has_ranks = rank_count(header) > 0;
  std::vector<row> rows{{has_ranks                ? "rank"
                         : header.plan.chunks > 1 ? "worker"
                                                  : "replica",
                         "busy", "to siblings'", "others waited s"}};
  for (const auto& w : s.workers)
    rows.push_back({name_of(w, header), percent(w.busy), format("%.2f", w.against_siblings),
                    format("%.3f", w.waited_for_seconds)});
  const std::string shown = table(rows, 1);
  const auto* slowest = slowest_worker(s.workers);
  if (slowest == nullptr) return shown;
  std::string text;
  text.append(has_ranks ? "slowest rank: " : "slowest replica: ").append(name_of(*slowest, header));
  if (slowest->is_straggler)
    text += format(": a micro-batch takes %.2f times its siblings' time", slowest->against_siblings) +
            (has_ranks ? " on " + actor_name(header, slowest->stage, slowest->replica) : "");
  else
    text += format(": the others waited %.3f s for it, ", slowest->waited_for_seconds) + "longer than for any other";
  return shown + prose(text + "\n");
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

std::string step_line(const trace_summary& s) {
  if (s.step.mean <= 0) return {};
  auto text = format("step: %.3f ms (mean ", s.step.mean * 1e3);
  text += s.step.steps > 0 ? format("of %lld in steady state; ", static_cast<long long>(s.step.steps)) +
                                 format("median %.3f ms)", s.step.median * 1e3)
                           : std::string("of all, filling and draining included)");
  return text + format(", %.2f minibatches/s\n", s.step.minibatches_per_second());
}

std::string source_line(const trace_summary& s) {
  if (s.source.admitted == 0) return {};
  return format("source: %lld micro-batches admitted, ", static_cast<long long>(s.source.admitted)) +
         format("waited %.3f s for credit (the pipeline was full) ", s.source.waited_for_credit_seconds) +
         format("and %.3f s for data\n", s.source.waited_for_data_seconds);
}

std::string rank_line(const trace_header& header) {
  if (rank_count(header) == 0) return {};
  const std::set<std::string> hosts(header.hosts.begin(), header.hosts.end());
  std::string text = header.rank < 0 ? counted(rank_count(header), "rank")
                                     : format("rank %d of %d alone", header.rank, rank_count(header));
  if (!hosts.empty()) text += " on " + counted(std::ssize(hosts), "host");
  text += '\n';
  if (header.clock_conflict_ns > 0)
    text += format("their clocks disagree by up to %.1f us", static_cast<double>(header.clock_conflict_ns) * 1e-3) +
            ": what lies between two ranks is no surer than that\n";
  return text;
}

std::string section_text(const trace_summary& s) {
  auto text = format("%.3f s of training; ", s.run_seconds);
  text += s.is_steady ? format("shares are of %.3f s of steady state in %d section", s.steady_seconds, s.sections) +
                            (s.sections == 1 ? "" : "s") +
                            " (of each stretch between drains: after every replica's first backward, until stage 0 "
                            "begins its last forward)\n"
                      : format("no steady state, so shares are of all %.3f s\n", s.steady_seconds);
  return text;
}

/// What is told of one plan: its stages, the edges between them, the workers that run them.
std::string plan_tables(const trace_summary& s, const trace_header& h) {
  auto text = "\n" + share_table(s, h) + "\n" + time_table(s);
  if (!s.edges.empty()) text.append("\n").append(s.links.empty() ? edge_table(s) : link_table(s));
  if (s.workers.size() > 1) text.append("\n").append(worker_table(s, h));
  text += prose(source_line(s) + all_reduce_lines(s));
  if (!s.critical_path.empty()) text += prose(path_line(s));
  return text;
}

/// " with update lag 1,0", where there is any.
std::string lag_text(const planner::execution_plan& plan) {
  if (std::all_of(plan.stages.begin(), plan.stages.end(), [](const auto& s) { return s.update_lag == 0; })) return {};
  std::string text;
  for (const auto& stage : plan.stages)
    text += (text.empty() ? " with update lag " : ",") + std::to_string(stage.update_lag);
  return text;
}

} // namespace

std::string plan_text(const planner::execution_plan& plan) {
  return "schedule " + plan.schedule + lag_text(plan) + ", " + counted(std::ssize(plan.stages), "stage") +
         (plan.chunks > 1 ? " in " + counted(plan.chunks, "chunk") + " a worker, " : ", ") +
         counted(plan.microbatches, "micro-batch") + " a minibatch";
}

std::string run_text(const trace_header& h) {
  auto text = h.model + ", " +
              (h.changes.empty() ? plan_text(h.plan) : std::to_string(epoch_count(h)) + " plans one after another");
  if (h.minibatches >= 0)
    text += ", " + counted(h.minibatches - std::max<std::int64_t>(0, h.first_minibatch), "minibatch");
  return text;
}

std::string to_text(const trace_summary& s, const trace_file& file) {
  const auto& h = file.header;
  auto text = run_text(h) + "\n";
  if (!file.complete()) text.append("the trace is incomplete: ").append(file.missing).append("\n");
  text += rank_line(h) + step_line(s);
  if (h.changes.empty()) return prose(text + section_text(s)) + plan_tables(s, h);
  text = prose(text + format("%.3f s of training\n", s.run_seconds) + source_line(s));
  const epoch_headers headers(h);
  for (const auto& epoch : s.epochs) {
    const auto header = headers.at(epoch.number);
    text += "\n" + prose(name_of_epoch(epoch.number, header) + ": " + plan_text(header.plan) + "\n" +
                         step_line(epoch.own) + section_text(epoch.own));
    text += plan_tables(epoch.own, header);
  }
  return text;
}

} // namespace penstock::actors
