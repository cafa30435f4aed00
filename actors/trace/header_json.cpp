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
constexpr std::int64_t most_minibatches = 1LL << 53; // sums of such numbers cannot overflow

[[noreturn]] void refuse(const std::string& what) {
  throw error("trace header: " + what);
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
std::vector<Number> numbers(const nlohmann::json& json, const char* key) {
  const auto& list = json.at(key);
  if (!list.is_array() || list.size() > most_stages) refuse(std::string("'") + key + "' is not a list of stages");
  std::vector<Number> result;
  for (const auto& value : list)
    result.push_back(number<Number>(value, key));
  return result;
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
                               {"complete", h.complete}};
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
    h.replicas = numbers<int>(json, "replicas");
    h.credits = numbers<std::int64_t>(json, "credits");
    json.at("stage_layers").get_to(h.stage_layers);
    json.at("stashes_weights").get_to(h.stashes_weights);
    json.at("vertical_sync").get_to(h.vertical_sync);
    h.first_minibatch = number<std::int64_t>(json.at("first_minibatch"), "first_minibatch");
    h.minibatches = number<std::int64_t>(json.at("minibatches"), "minibatches");
    h.dropped = number<std::int64_t>(json.at("dropped"), "dropped");
    json.at("complete").get_to(h.complete);
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
