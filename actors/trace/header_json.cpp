// The header's JSON; parsing trusts nothing.
#include "actors/trace/header_json.hpp"

#include "kernels/check.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace penstock::actors {

namespace {

constexpr int format_version = 1;
constexpr std::size_t most_stages = 10'000;
constexpr int most_ranks = std::numeric_limits<std::int16_t>::max();
constexpr std::int64_t most_minibatches = 1LL << 53; // sums of such numbers cannot overflow

[[noreturn]] void refuse(const std::string& what) {
  throw error("trace header: " + what);
}

void check_ranks(const trace_header& h) {
  if (h.rank < -1 || h.rank > most_ranks) refuse("rank " + std::to_string(h.rank));
  if (h.hosts.size() > most_ranks) refuse(std::to_string(h.hosts.size()) + " hosts, at most 32767 are read");
  constexpr std::int64_t most_ns = std::int64_t{1} << 58; // nine years; far from overflow when added to a time
  if (h.clock_offset_ns < -most_ns || h.clock_offset_ns > most_ns)
    refuse("a clock offset of " + std::to_string(h.clock_offset_ns) + " ns");
  if (h.clock_conflict_ns < 0) refuse("a clock conflict of " + std::to_string(h.clock_conflict_ns) + " ns");
  if (h.ranks.empty()) return;
  if (h.ranks.size() != h.replicas.size())
    refuse("ranks of " + std::to_string(h.ranks.size()) + " stages, wanted " + std::to_string(h.replicas.size()));
  for (std::size_t s = 0; s < h.ranks.size(); ++s) {
    if (h.ranks[s].size() != static_cast<std::size_t>(h.replicas[s]))
      refuse(std::to_string(h.ranks[s].size()) + " ranks for " + std::to_string(h.replicas[s]) + " replicas of stage " +
             std::to_string(s));
    for (const int rank : h.ranks[s])
      if (rank < 0 || rank > most_ranks) refuse("stage " + std::to_string(s) + " on rank " + std::to_string(rank));
  }
  const int ranks = rank_count(h);
  if (!h.hosts.empty() && h.hosts.size() < static_cast<std::size_t>(ranks))
    refuse(std::to_string(h.hosts.size()) + " hosts for " + std::to_string(ranks) + " ranks");
  if (h.rank >= ranks) refuse("rank " + std::to_string(h.rank) + " of " + std::to_string(ranks));
}

void check_header(const trace_header& h) {
  constexpr int most_replicas = std::numeric_limits<std::int16_t>::max();
  const auto stages = h.replicas.size();
  if (stages == 0 || stages > most_stages) refuse(std::to_string(stages) + " stages, wanted 1 to 10000");
  if (h.credits.size() != stages)
    refuse(std::to_string(h.credits.size()) + " credits for " + std::to_string(stages) + " stages");
  if (!h.stage_layers.empty() && h.stage_layers.size() != stages)
    refuse(std::to_string(h.stage_layers.size()) + " layer names for " + std::to_string(stages) + " stages");
  for (int r : h.replicas)
    if (r < 1 || r > most_replicas) refuse("a stage of " + std::to_string(r) + " replicas, wanted 1 to 32767");
  for (auto k : h.credits)
    if (k < 1) refuse("a credit of " + std::to_string(k) + ", wanted 1 or more");
  if (h.microbatches < 1) refuse(std::to_string(h.microbatches) + " micro-batches, wanted 1 or more");
  if (h.window < 0) refuse("a window of " + std::to_string(h.window) + ", wanted 0 or more");
  if (h.first_minibatch < -1 || h.first_minibatch > most_minibatches)
    refuse("a first minibatch of " + std::to_string(h.first_minibatch));
  if (h.complete && h.minibatches < 0) refuse("complete without the count of its minibatches");
  if (h.minibatches < -1 || h.minibatches > most_minibatches) refuse(std::to_string(h.minibatches) + " minibatches");
  if (h.dropped < 0) refuse(std::to_string(h.dropped) + " dropped records");
  check_ranks(h);
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

/// What a file of an older version, always of one process, does not have.
void read_ranks(const nlohmann::json& json, trace_header& h) {
  if (!json.contains("rank")) return;
  json.at("run").get_to(h.run);
  h.rank = number<int>(json.at("rank"), "rank");
  const auto& stages = json.at("ranks");
  if (!stages.is_array() || stages.size() > most_stages) refuse("'ranks' is not a list of stages");
  for (const auto& stage : stages)
    h.ranks.push_back(numbers<int>(stage, "ranks", most_ranks));
  json.at("hosts").get_to(h.hosts);
  h.clock_offset_ns = number<std::int64_t>(json.at("clock_offset_ns"), "clock_offset_ns");
  h.clock_conflict_ns = number<std::int64_t>(json.at("clock_conflict_ns"), "clock_conflict_ns");
  json.at("missing").get_to(h.missing);
}

} // namespace

std::string to_json(const trace_header& h) {
  const nlohmann::json json = {{"format", format_version},
                               {"model", h.model},
                               {"schedule", h.schedule},
                               {"microbatches", h.microbatches},
                               {"window", h.window},
                               {"replicas", h.replicas},
                               {"credits", h.credits},
                               {"stage_layers", h.stage_layers},
                               {"stashes_weights", h.stashes_weights},
                               {"vertical_sync", h.vertical_sync},
                               {"first_minibatch", h.first_minibatch},
                               {"minibatches", h.minibatches},
                               {"dropped", h.dropped},
                               {"complete", h.complete},
                               {"run", h.run},
                               {"rank", h.rank},
                               {"ranks", h.ranks},
                               {"hosts", h.hosts},
                               {"clock_offset_ns", h.clock_offset_ns},
                               {"clock_conflict_ns", h.clock_conflict_ns},
                               {"missing", h.missing}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

trace_header parse_header(std::string_view text) {
  trace_header h;
  try {
    const auto json = nlohmann::json::parse(text);
    const int version = number<int>(json.at("format"), "format");
    if (version != format_version) refuse("format " + std::to_string(version) + ", wanted 1");
    json.at("model").get_to(h.model);
    json.at("schedule").get_to(h.schedule);
    h.microbatches = number<int>(json.at("microbatches"), "microbatches");
    h.window = number<int>(json.at("window"), "window");
    h.replicas = numbers<int>(json.at("replicas"), "replicas");
    h.credits = numbers<std::int64_t>(json.at("credits"), "credits");
    json.at("stage_layers").get_to(h.stage_layers);
    json.at("stashes_weights").get_to(h.stashes_weights);
    json.at("vertical_sync").get_to(h.vertical_sync);
    h.first_minibatch = number<std::int64_t>(json.at("first_minibatch"), "first_minibatch");
    h.minibatches = number<std::int64_t>(json.at("minibatches"), "minibatches");
    h.dropped = number<std::int64_t>(json.at("dropped"), "dropped");
    json.at("complete").get_to(h.complete);
    read_ranks(json, h);
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
