// The header's JSON; parsing trusts nothing.
#include "actors/trace/header_json.hpp"

#include "actors/trace/record_contract.hpp"
#include "kernels/check.hpp"
#include "planner/profile/wording.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace penstock::actors {

namespace {

constexpr int format_version = 1;

[[noreturn]] void refuse(const std::string& what) {
  throw error("trace header: " + what);
}

/// nlohmann wraps numbers that do not fit; a header that holds one is not ours.
template <class Number>
Number number(const nlohmann::json& value, const char* key) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<Number>::max())
                        : value.is_number_integer() &&
                              value.get<std::int64_t>() >= std::numeric_limits<Number>::min() &&
                              value.get<std::int64_t>() <= std::numeric_limits<Number>::max();
  if (!fits) refuse(std::string("'") + key + "' is not a whole number in range");
  return value.get<Number>();
}

template <class Number>
std::vector<Number> numbers(const nlohmann::json& list, const char* key, std::size_t most = most_stages) {
  if (!list.is_array() || list.size() > most) refuse(std::string("'") + key + "' is not a list of numbers in range");
  std::vector<Number> result;
  for (const auto& value : list)
    result.push_back(number<Number>(value, key));
  return result;
}

void read_ranks_of_plan(const nlohmann::json& json, planner::execution_plan& p) {
  const auto& stages = json.at("ranks");
  if (!stages.is_array() || stages.size() > most_stages) refuse("'ranks' is not a list of stages");
  if (!stages.empty() && stages.size() != p.stages.size())
    refuse("ranks of " + std::to_string(stages.size()) + " stages, wanted " + std::to_string(p.stages.size()));
  for (std::size_t s = 0; s < stages.size(); ++s)
    p.stages[s].ranks = numbers<int>(stages[s], "ranks", most_ranks);
}

/// What a file of an older version, always of one process, does not have.
void read_ranks(const nlohmann::json& json, trace_header& h) {
  if (!json.contains("rank")) return;
  json.at("run").get_to(h.run);
  h.rank = number<int>(json.at("rank"), "rank");
  read_ranks_of_plan(json, h.plan);
  json.at("hosts").get_to(h.hosts);
  h.clock_offset_ns = number<std::int64_t>(json.at("clock_offset_ns"), "clock_offset_ns");
  h.clock_conflict_ns = number<std::int64_t>(json.at("clock_conflict_ns"), "clock_conflict_ns");
  json.at("missing").get_to(h.missing);
}

/// Which layers are frozen beside them is no concern of a trace: the plan is that of a freeze that ends with them.
void read_frozen_stages(const nlohmann::json& json, planner::execution_plan& p) {
  const auto frozen = number<std::int64_t>(json.at("frozen_stages"), "frozen_stages");
  const auto stages = static_cast<std::int64_t>(p.stages.size());
  if (frozen < 1 || frozen >= stages)
    refuse(std::to_string(frozen) + " frozen stages, wanted 1 to " + std::to_string(stages - 1));
  p.first_active = p.stages[static_cast<std::size_t>(frozen)].first_layer;
  if (p.first_active.empty()) refuse("frozen stages, wanted the names of their layers with them");
  p.ahead = number<std::int64_t>(json.at("ahead"), "ahead");
}

void read_plan(const nlohmann::json& json, planner::execution_plan& p) {
  json.at("schedule").get_to(p.schedule);
  p.microbatches = number<int>(json.at("microbatches"), "microbatches");
  p.window = number<int>(json.at("window"), "window");
  if (json.contains("chunks")) p.chunks = number<int>(json.at("chunks"), "chunks");
  const auto replicas = numbers<int>(json.at("replicas"), "replicas");
  const auto credits = numbers<std::int64_t>(json.at("credits"), "credits");
  const auto layers = json.at("stage_layers").get<std::vector<std::string>>();
  const auto stages = std::to_string(replicas.size()) + " stages";
  if (credits.size() != replicas.size()) refuse(std::to_string(credits.size()) + " credits for " + stages);
  if (!layers.empty() && layers.size() != replicas.size())
    refuse(std::to_string(layers.size()) + " layer names for " + stages);
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    auto& stage = p.stages.emplace_back();
    stage.replicas = replicas[s];
    stage.in_flight = credits[s];
    if (!layers.empty()) set_layers(stage, layers[s]);
  }
  if (json.contains("update_lag")) { // of a run without it a file says nothing
    const auto lags = numbers<std::int64_t>(json.at("update_lag"), "update_lag");
    if (lags.size() != replicas.size()) refuse(std::to_string(lags.size()) + " update lags for " + stages);
    for (std::size_t s = 0; s < lags.size(); ++s)
      p.stages[s].update_lag = lags[s];
  }
  if (json.contains("frozen_stages")) read_frozen_stages(json, p); // likewise
  // What a file of an older version does not have.
  if (json.contains("threads")) p.threads = number<int>(json.at("threads"), "threads");
  if (!json.contains("recompute")) return;
  const auto recompute = json.at("recompute").get<std::vector<bool>>();
  if (recompute.size() != replicas.size())
    refuse("recomputation of " + std::to_string(recompute.size()) + " stages, wanted " +
           std::to_string(replicas.size()));
  for (std::size_t s = 0; s < recompute.size(); ++s)
    p.stages[s].recompute = recompute[s];
}

/// What a file of a run under one plan does not have.
void read_changes(const nlohmann::json& json, trace_header& h) {
  if (!json.contains("changes")) return;
  const auto& changes = json.at("changes");
  if (!changes.is_array() || changes.size() > most_changes)
    refuse("'changes' is not a list of at most " + std::to_string(most_changes) + " plans");
  for (const auto& from : changes) {
    auto& change = h.changes.emplace_back();
    change.first_stretch = number<std::int64_t>(from.at("first_stretch"), "first_stretch");
    change.first_minibatch = number<std::int64_t>(from.at("first_minibatch"), "first_minibatch");
    change.first_evaluation = number<std::int64_t>(from.at("first_evaluation"), "first_evaluation");
    read_plan(from, change.plan);
    read_ranks_of_plan(from, change.plan);
  }
}

template <class Get>
nlohmann::json per_stage(const planner::execution_plan& p, Get get) {
  auto list = nlohmann::json::array();
  for (const auto& stage : p.stages)
    list.push_back(get(stage));
  return list;
}

/// Stages, schedule and placement; keys that a header has beside its own.
nlohmann::json json_of(const planner::execution_plan& p) {
  const trace_header named{.plan = p};
  nlohmann::json json{
      {"schedule", p.schedule},
      {"microbatches", p.microbatches},
      {"window", p.window},
      {"replicas", replicas_of(p)},
      {"credits", per_stage(p, [](const auto& s) { return s.in_flight; })},
      {"stage_layers", stage_layers(named)},
      {"recompute", per_stage(p, [](const auto& s) { return s.recompute; })},
      {"threads", p.threads},
      {"ranks", names_ranks(named) ? per_stage(p, [](const auto& s) { return s.ranks; }) : nlohmann::json::array()}};
  if (p.chunks != 1) json["chunks"] = p.chunks;
  if (std::any_of(p.stages.begin(), p.stages.end(), [](const auto& s) { return s.update_lag > 0; }))
    json["update_lag"] = per_stage(p, [](const auto& s) { return s.update_lag; });
  if (const auto frozen = planner::frozen_stages_of(p); frozen > 0) {
    json["frozen_stages"] = frozen;
    json["ahead"] = p.ahead;
  }
  return json;
}

} // namespace

std::string to_json(const trace_header& h) {
  auto json = json_of(h.plan);
  json.update({{"format", format_version},
               {"model", h.model},
               {"stashes_weights", h.stashes_weights},
               {"vertical_sync", h.vertical_sync},
               {"first_minibatch", h.first_minibatch},
               {"minibatches", h.minibatches},
               {"dropped", h.dropped},
               {"complete", h.complete},
               {"run", h.run},
               {"rank", h.rank},
               {"hosts", h.hosts},
               {"clock_offset_ns", h.clock_offset_ns},
               {"clock_conflict_ns", h.clock_conflict_ns},
               {"missing", h.missing}});
  for (const auto& change : h.changes) {
    auto& to = json["changes"].emplace_back(json_of(change.plan));
    to["first_stretch"] = change.first_stretch;
    to["first_minibatch"] = change.first_minibatch;
    to["first_evaluation"] = change.first_evaluation;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

trace_header parse_header(std::string_view text) {
  trace_header h;
  try {
    const auto json = nlohmann::json::parse(text);
    const int version = number<int>(json.at("format"), "format");
    if (version != format_version) refuse("format " + std::to_string(version) + ", wanted 1");
    h.model = planner::options_as_said_now(json.at("model").get<std::string>());
    read_plan(json, h.plan);
    json.at("stashes_weights").get_to(h.stashes_weights);
    json.at("vertical_sync").get_to(h.vertical_sync);
    h.first_minibatch = number<std::int64_t>(json.at("first_minibatch"), "first_minibatch");
    h.minibatches = number<std::int64_t>(json.at("minibatches"), "minibatches");
    h.dropped = number<std::int64_t>(json.at("dropped"), "dropped");
    json.at("complete").get_to(h.complete);
    read_ranks(json, h);
    read_changes(json, h);
  } catch (const nlohmann::json::exception& e) {
    std::string what = e.what();
    std::replace_if(
        what.begin(), what.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
    refuse(what);
  }
  check_header(h);
  return h;
}

} // namespace penstock::actors
