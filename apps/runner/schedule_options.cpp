// The options of a schedule, shared by every app and by `penstock schedule`.
#include "apps/runner/options.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "planner/update_lag.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

namespace penstock::apps {

namespace {

// More than any machine has; keeps a mistyped number from asking for all memory.
constexpr std::int64_t most_stages = 4096;
constexpr std::int64_t most_microbatches = 1'000'000;
constexpr int most_replicas = 32'767; // of a stage

void check_schedule_name(const std::string& name) {
  const auto names = planner::schedule_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw usage_error("--schedule: unknown schedule " + in_quotes(name) + did_you_mean(name, names) +
                      ", wanted one of " + join(names, ", "));
}

std::vector<int> replica_list(const schedule_texts& texts) {
  if (texts.replicas.empty())
    return std::vector<int>(static_cast<std::size_t>(std::max<std::int64_t>(texts.stages, 1)), 1);
  auto replicas = parse_counts("--replicas", texts.replicas, 1, most_replicas);
  if (texts.stages != 0 && texts.stages != static_cast<std::int64_t>(replicas.size()))
    throw usage_error("--replicas: found " + std::to_string(replicas.size()) + " counts ('" + texts.replicas +
                      "'), wanted " + std::to_string(texts.stages) + ", one per stage of --stages");
  return replicas;
}

std::vector<std::int64_t> read_update_lag(const schedule_texts& texts, const actors::pipeline_request& request) {
  if (texts.update_lag.empty()) return {};
  try {
    auto lags = planner::parse_update_lag(texts.update_lag);
    planner::resolve_update_lag(planner::find_preset(request.schedule),
                                {.name = request.schedule, .replicas = request.replicas, .update_lag = lags});
    return lags; // one for all stays so: which stages have updates is not known yet
  } catch (const std::invalid_argument& fault) {
    throw usage_error(std::string("--update-lag: ") + fault.what());
  }
}

} // namespace

std::vector<std::string> parse_words(const std::string& option, const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t from = 0; from <= text.size();) {
    const auto to = std::min(text.find(',', from), text.size());
    words.push_back(text.substr(from, to - from));
    if (words.back().empty())
      throw usage_error(option + ": found " + in_quotes(text) + ", wanted words with single commas between");
    from = to + 1;
  }
  return words;
}

std::vector<int> parse_counts(const std::string& option, const std::string& text, int least, int most) {
  std::vector<int> counts;
  for (const auto& word : parse_words(option, text)) {
    int count = 0;
    const auto [rest, fault] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (fault != std::errc{} || rest != word.data() + word.size() || count < least || count > most)
      throw usage_error(option + ": found " + in_quotes(word) + ", wanted whole numbers " +
                        (most == std::numeric_limits<int>::max()
                             ? "of at least " + std::to_string(least)
                             : "from " + std::to_string(least) + " to " + std::to_string(most)) +
                        " with commas between");
    counts.push_back(count);
  }
  return counts;
}

void declare_schedule_options(command_line& line, schedule_texts& texts) {
  line.text("--schedule", texts.schedule, "NAME", join(planner::schedule_names(), ", "));
  line.whole("--stages", texts.stages, 1, most_stages, "Stages [1]");
  line.whole("--chunks", texts.chunks, 1, most_stages,
             "For interleaved: chunks of the model on each of the --stages worker positions [2]");
  line.text("--replicas", texts.replicas, "R0,R1,...",
            "Replicas of each stage (interleaved: of each worker position) [1 each]; gives the stage count too");
  line.whole("--microbatches", texts.microbatches, 1, most_microbatches,
             "Micro-batches per minibatch [the schedule's own]");
  line.text("--in-flight", texts.in_flight, "SPEC", "Credits K: tight, double, full or K0,K1,... [the schedule's own]");
  line.text("--update-lag", texts.update_lag, "SPEC",
            "Updates that pipedream's forwards read later: D, or D0,D1,... [0]");
  line.whole("--window", texts.window, 0, "How far past its list's head a stage may look for work");
}

actors::pipeline_request read_schedule_options(const schedule_texts& texts) {
  check_schedule_name(texts.schedule);
  actors::pipeline_request request;
  request.schedule = texts.schedule;
  request.replicas = replica_list(texts);
  request.microbatches = static_cast<int>(texts.microbatches);
  request.window = texts.window;
  request.chunks = texts.chunks;
  if (texts.chunks > 0 && texts.schedule != "interleaved")
    throw usage_error("--chunks: found " + std::to_string(texts.chunks) + " with --schedule " + texts.schedule +
                      ", wanted --schedule interleaved, whose workers host several");
  if (texts.schedule == "interleaved" &&
      !std::ranges::all_of(request.replicas, [&](int r) { return r == request.replicas.front(); }))
    throw usage_error("--replicas: found '" + texts.replicas +
                      "', wanted one count for all worker positions with --schedule interleaved");
  request.update_lag = read_update_lag(texts, request);
  if (texts.in_flight.empty()) return request;
  try {
    request.in_flight = planner::parse_in_flight(texts.in_flight);
  } catch (const std::invalid_argument& fault) {
    throw usage_error(std::string("--in-flight: ") + fault.what());
  }
  const auto given = request.in_flight.given.size();
  const auto stages = request.replicas.size() * static_cast<std::size_t>(actors::chunks_of(request));
  if (given != 0 && given != stages)
    throw usage_error("--in-flight: found " + std::to_string(given) + " credits, wanted " + std::to_string(stages) +
                      ", one per stage");
  return request;
}

} // namespace penstock::apps
