// The difference as tables for people and as JSON for programs.
#include "tools/trace/diff.hpp"
#include "tools/trace/summary.hpp"
#include "tools/trace/table.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace penstock::actors {

namespace {

std::string ratio(const compared& c) {
  return c.a > 0 ? format("%.3f", c.ratio()) : "-";
}

std::string milliseconds(double seconds) {
  return seconds > 0 ? format("%.3f", seconds * 1e3) : "-";
}

void add_time(std::vector<table_row>& rows, table_row names, const compared& c) {
  names.insert(names.end(), {milliseconds(c.a), milliseconds(c.b), ratio(c)});
  rows.push_back(std::move(names));
}

void add_share(std::vector<table_row>& rows, table_row names, const compared& c) {
  names.insert(names.end(), {percent(c.a), percent(c.b), ratio(c)});
  rows.push_back(std::move(names));
}

std::string describe(const trace_file& file) {
  auto text = run_text(file.header);
  if (!file.complete()) text += ", incomplete: " + file.missing;
  return text + "\n";
}

std::string total_table(const trace_difference& d) {
  std::vector<table_row> rows{{"whole run", "A", "B", "B/A"}};
  add_time(rows, {"step ms (mean, steady state)"}, d.step_seconds);
  add_time(rows, {"step ms (median)"}, d.step_median_seconds);
  add_share(rows, {"busy"}, d.busy);
  add_share(rows, {"waiting"}, d.waiting);
  add_share(rows, {"bubble"}, d.bubble);
  rows.push_back(
      {"staleness (mean, updates)", format("%.2f", d.staleness.a), format("%.2f", d.staleness.b), ratio(d.staleness)});
  rows.push_back({"MB between stages a minibatch", format("%.3f", d.bytes.a * 1e-6), format("%.3f", d.bytes.b * 1e-6),
                  ratio(d.bytes)});
  return table(rows, 1);
}

std::string stage_table(const trace_difference& d) {
  std::vector<table_row> rows{{"stage", "", "A", "B", "B/A"}};
  for (std::size_t i = 0; i < d.stages.size(); ++i) {
    const auto& s = d.stages[i];
    const auto name = std::to_string(i);
    add_time(rows, {name, "forward ms"}, s.forward_seconds);
    add_time(rows, {"", "backward ms"}, s.backward_seconds);
    add_time(rows, {"", "update ms"}, s.update_seconds);
    add_share(rows, {"", "busy"}, s.busy);
    add_share(rows, {"", "waiting"}, s.waiting);
  }
  return table(rows, 2);
}

} // namespace

std::string to_text(const trace_difference& d, const trace_file& a, const trace_file& b) {
  std::string text = "A: " + describe(a) + "B: " + describe(b);
  if (!d.differences.empty()) text += "The plans differ:\n";
  for (const auto& line : d.differences)
    text += "  " + line + "\n";
  text = prose(text) + "\n" + total_table(d) + "\n";
  if (d.stages.empty())
    return text + prose(a.header.changes.empty() && b.header.changes.empty()
                            ? "(the stages hold other layers, so there is nothing to compare by stage)\n"
                            : "(the plan changes within a run, so there is nothing to compare by stage)\n");
  return text + stage_table(d) +
         prose(std::string("(times are medians of one ") +
               (d.is_per_minibatch ? "micro-batch times the micro-batches of a minibatch" : "micro-batch") +
               ", or of one update)\n");
}

std::string to_json(const trace_difference& d, const trace_file& a, const trace_file& b) {
  const auto both = [](const compared& c) {
    return nlohmann::json{{"a", c.a}, {"b", c.b}, {"ratio", c.a > 0 ? nlohmann::json(c.ratio()) : nlohmann::json()}};
  };
  const auto trace = [](const trace_file& file) {
    const auto& h = file.header;
    auto json = nlohmann::json{{"model", h.model},
                               {"schedule", h.plan.schedule},
                               {"replicas", replicas_of(h.plan)},
                               {"stage_layers", stage_layers(h)},
                               {"microbatches", h.plan.microbatches},
                               {"minibatches", h.minibatches},
                               {"complete", file.complete()}};
    for (const auto& change : h.changes)
      json["changes"].push_back({{"first_minibatch", change.first_minibatch},
                                 {"schedule", change.plan.schedule},
                                 {"replicas", replicas_of(change.plan)},
                                 {"stage_layers", stage_layers({.plan = change.plan})},
                                 {"microbatches", change.plan.microbatches}});
    return json;
  };
  nlohmann::json stages = nlohmann::json::array();
  for (std::size_t i = 0; i < d.stages.size(); ++i)
    stages.push_back({{"stage", i},
                      {"forward_seconds", both(d.stages[i].forward_seconds)},
                      {"backward_seconds", both(d.stages[i].backward_seconds)},
                      {"update_seconds", both(d.stages[i].update_seconds)},
                      {"busy", both(d.stages[i].busy)},
                      {"waiting", both(d.stages[i].waiting)}});
  const nlohmann::json json = {{"a", trace(a)},
                               {"b", trace(b)},
                               {"differences", d.differences},
                               {"step_seconds", both(d.step_seconds)},
                               {"step_median_seconds", both(d.step_median_seconds)},
                               {"busy", both(d.busy)},
                               {"waiting", both(d.waiting)},
                               {"bubble", both(d.bubble)},
                               {"staleness", both(d.staleness)},
                               {"bytes_per_minibatch", both(d.bytes)},
                               {"times_are_per", d.is_per_minibatch ? "minibatch" : "micro-batch"},
                               {"stages", stages}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace penstock::actors
