// From a request to a schedule: checks what was asked and settles M, the credits and the rules.
#include "planner/schedule.hpp"

#include "planner/credits.hpp"
#include "planner/presets.hpp"
#include "planner/update_lag.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace penstock::planner {

namespace {

// Far more than any machine has; keeps a mistyped number from asking for all memory.
constexpr std::int64_t most_replicas = 65536;
constexpr std::int64_t most_stages = 65536;
constexpr std::int64_t most_ahead = 1'000'000;

[[noreturn]] void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

void check_counts(const schedule_request& request) {
  if (request.replicas.empty()) refuse("replicas: no stages given, wanted one count per stage");
  for (std::size_t s = 0; s < request.replicas.size(); ++s)
    if (request.replicas[s] < 1)
      refuse("replicas of stage " + std::to_string(s) + " is " + std::to_string(request.replicas[s]) +
             ", wanted at least 1");
  const auto all = std::accumulate(request.replicas.begin(), request.replicas.end(), std::int64_t{0});
  if (all > most_replicas)
    refuse("replicas: " + std::to_string(all) + " over all stages, wanted at most " + std::to_string(most_replicas));
  if (request.microbatches < 0)
    refuse("micro-batches is " + std::to_string(request.microbatches) + ", wanted at least 1");
  if (request.window < 0) refuse("window is " + std::to_string(request.window) + ", wanted at least 0");
  if (request.chunks < 1) refuse("chunks is " + std::to_string(request.chunks) + ", wanted at least 1");
  if (request.chunks > most_stages / static_cast<std::int64_t>(request.replicas.size()))
    refuse("chunks is " + std::to_string(request.chunks) + " on " + std::to_string(request.replicas.size()) +
           " worker positions, wanted at most " + std::to_string(most_stages) + " stages in all");
  if (request.minibatches < 0) refuse("minibatches is " + std::to_string(request.minibatches) + ", wanted at least 0");
}

void check_frozen(const schedule_request& request) {
  const auto stages = static_cast<std::int64_t>(request.replicas.size()) * request.chunks;
  if (request.frozen_stages < 0 || request.frozen_stages >= stages)
    refuse("frozen stages: " + std::to_string(request.frozen_stages) + " of " + std::to_string(stages) +
           ", wanted 0 to " + std::to_string(stages - 1) + ", since the loss stays active");
  if (request.ahead < 0 || request.ahead > most_ahead)
    refuse("ahead is " + std::to_string(request.ahead) + ", wanted 0 to " + std::to_string(most_ahead));
  if (request.ahead > 0 && request.frozen_stages == 0)
    refuse("ahead is " + std::to_string(request.ahead) +
           " and no stage is wholly frozen, wanted 0: only frozen stages run ahead");
}

// Its credits are found by walking a minibatch.
constexpr std::size_t most_interleaved_stages = 4096;

const char* place_word(const preset& p) {
  return p.order == action_order::chunks_in_turn ? "worker position" : "stage";
}

void check_fits(const preset& p, const schedule_request& request) {
  const auto& replicas = request.replicas;
  if (p.name == "data-parallel" && replicas.size() != 1)
    refuse("data-parallel has one stage, found " + std::to_string(replicas.size()));
  if (p.unit == update_unit::replica_group && request.microbatches > 1)
    refuse(std::string(p.name) + " moves whole minibatches: micro-batches is " + std::to_string(request.microbatches) +
           ", wanted 1; to accumulate gradients over micro-batches without a flush use 2bw");
  if (p.order == action_order::chunks_in_turn && request.frozen_stages > 0)
    refuse(std::string(p.name) +
           " cannot let stages run ahead of the others of their worker: " + std::to_string(request.frozen_stages) +
           " frozen at the front, wanted none; a frozen part of stage 0 it can");
  if (p.order != action_order::chunks_in_turn && request.chunks > 1)
    refuse("chunks is " + std::to_string(request.chunks) + ", and " + std::string(p.name) +
           " has one stage a worker; several chunks a worker are for interleaved");
  if (p.order == action_order::chunks_in_turn && request.chunks * replicas.size() > most_interleaved_stages)
    refuse(std::string(p.name) + " has " + std::to_string(request.chunks * replicas.size()) +
           " stages, wanted at most " + std::to_string(most_interleaved_stages));
  const auto first = static_cast<std::size_t>(request.frozen_stages); // frozen ones may have any number
  if (p.versions == version_rule::vertical || p.order == action_order::chunks_in_turn)
    for (auto s = first + 1; s < replicas.size(); ++s)
      if (replicas[s] != replicas[first])
        refuse(std::string(p.name) + " needs equal replica counts: " + place_word(p) + " " + std::to_string(first) +
               " has " + std::to_string(replicas[first]) + ", " + place_word(p) + " " + std::to_string(s) + " has " +
               std::to_string(replicas[s]));
}

int default_microbatches(const preset& p, const schedule_request& request) {
  if (request.microbatches > 0) return request.microbatches;
  return p.name == "data-parallel" ? request.replicas[0] : 1;
}

/// 2bw's two versions are enough from M = max over s of (K_s - 1) R_s on.
int buffered_microbatches(const schedule& s, int asked) {
  std::int64_t least = 1;
  std::size_t binding = 0;
  for (auto i = static_cast<std::size_t>(s.frozen_stages); i < s.stages.size(); ++i) {
    const auto needed = (s.stages[i].credit - 1) * s.stages[i].replicas;
    if (needed > least) {
      least = needed;
      binding = i;
    }
  }
  if (asked != 0 && asked < least)
    refuse(s.name + " keeps two versions: micro-batches is " + std::to_string(asked) + ", wanted at least " +
           std::to_string(least) + ", (K - 1) x replicas of stage " + std::to_string(binding));
  if (least > 1'000'000)
    refuse(s.name + " would need " + std::to_string(least) + " micro-batches, wanted at most 1000000");
  return asked != 0 ? asked : static_cast<int>(least);
}

std::int64_t readable_versions(const preset& p, const schedule& s, const stage_schedule& stage) {
  if (p.flush == flush_point::minibatch || p.versions == version_rule::newest_for_backward) return 1;
  if (p.unit == update_unit::minibatch_after_next) return 2;
  return p.versions == version_rule::vertical ? s.first_active().credit : stage.credit + stage.update_lag;
}

/// How versions and delayed weight gradients follow from the credits, on stages that are active.
void settle_active_stages(const preset& p, schedule& s) {
  const auto source_credit = s.first_active().credit * s.first_active().replicas; // of the active ones alone
  for (auto i = static_cast<std::size_t>(s.frozen_stages); i < s.stages.size(); ++i) {
    auto& stage = s.stages[i];
    stage.readable_versions = readable_versions(p, s, stage);
    if (p.splits_backward)
      stage.delayed_weight_gradients = (source_credit + stage.replicas - 1) / stage.replicas - stage.credit;
  }
}

} // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const auto& p : presets())
    names.emplace_back(p.name);
  return names;
}

schedule resolve_schedule(const schedule_request& request) {
  const auto& p = find_preset(request.name);
  check_counts(request);
  check_frozen(request);
  check_fits(p, request);
  schedule s;
  s.name = request.name;
  s.minibatches = request.minibatches;
  s.microbatches = default_microbatches(p, request);
  s.window = request.window;
  s.chunks = request.chunks;
  s.frozen_stages = request.frozen_stages;
  s.synchronous = p.flush == flush_point::minibatch;
  s.stashes_weights = p.versions != version_rule::newest_for_backward;
  s.updates.per_minibatch_group = s.updates.scale_learning_rate = p.unit == update_unit::replica_group;
  const auto credits = resolve_credits(p, request, s.microbatches);
  const auto lags = resolve_update_lag(p, request);
  for (std::size_t i = 0; i < credits.size(); ++i)
    s.stages.push_back(
        {.replicas = request.replicas[i % request.replicas.size()], .credit = credits[i], .update_lag = lags[i]});
  if (p.unit == update_unit::minibatch_after_next) s.microbatches = buffered_microbatches(s, request.microbatches);
  s.ahead = request.ahead == 0 && s.frozen_stages > 0 ? s.first_active().replicas : request.ahead;
  settle_active_stages(p, s);
  return s;
}

int replica_of(const schedule& s, int stage, std::int64_t minibatch, std::int32_t microbatch) {
  const auto replicas = s.stages[static_cast<std::size_t>(stage)].replicas;
  if (replicas == 1) return 0; // nearly always, and a division takes as long as all else here
  // One formula for both rules: where minibatches are dealt whole, M is 1.
  return static_cast<int>((minibatch * s.microbatches + microbatch) % replicas);
}

std::int64_t dealing_period(const schedule& s) {
  constexpr std::int64_t most = 1'000'000;
  std::int64_t microbatches = 1;
  for (const auto& stage : s.stages) {
    microbatches = std::lcm(microbatches, static_cast<std::int64_t>(stage.replicas));
    if (microbatches > most) return 0;
  }
  return microbatches / std::gcd(microbatches, static_cast<std::int64_t>(s.microbatches));
}

int position_of(const schedule& s, int stage) {
  return s.chunks == 1 ? stage : stage % positions_of(s);
}

int positions_of(const schedule& s) {
  return static_cast<int>(s.stages.size()) / s.chunks;
}

std::vector<int> stages_at(const schedule& s, int position) {
  std::vector<int> stages;
  for (int stage = position; stage < static_cast<int>(s.stages.size()); stage += positions_of(s))
    stages.push_back(stage);
  return stages;
}

std::vector<worker> workers_of(const schedule& s) {
  std::vector<worker> all;
  for (int position = 0; position < positions_of(s); ++position)
    for (int r = 0; r < s.stages[static_cast<std::size_t>(stages_at(s, position).front())].replicas; ++r)
      all.push_back({position, r});
  return all;
}

std::int64_t minibatches_per_update(const schedule& s, int stage) {
  return s.updates.per_minibatch_group ? s.stages[static_cast<std::size_t>(stage)].replicas : 1;
}

std::int64_t update_of(const schedule& s, int stage, std::int64_t minibatch) {
  if (s.is_frozen(stage)) return 0;
  const auto each = minibatches_per_update(s, stage);
  return each == 1 ? minibatch : minibatch / each;
}

std::int64_t updates_of(const schedule& s, int stage) {
  if (s.is_frozen(stage)) return 0;
  const auto each = minibatches_per_update(s, stage);
  return (s.minibatches + each - 1) / each;
}

std::string describe(const action& a) {
  static const char* const names[] = {"forward", "backward", "backward_input", "backward_weight", "update"};
  const std::string kind = names[static_cast<std::size_t>(a.kind)];
  if (a.kind == action_kind::update) return kind + " " + std::to_string(a.minibatch);
  return kind + " of minibatch " + std::to_string(a.minibatch) + " micro-batch " + std::to_string(a.microbatch);
}

std::string describe_place(int stage, int replica) {
  return "stage " + std::to_string(stage) + " replica " + std::to_string(replica);
}

std::int64_t microbatch_samples(std::int64_t samples, int microbatches, int microbatch) {
  if (samples < 0 || microbatches < 1 || microbatch < 0 || microbatch >= microbatches)
    refuse("micro-batch " + std::to_string(microbatch) + " of " + std::to_string(microbatches) + " over " +
           std::to_string(samples) + " samples does not exist");
  return samples / microbatches + (microbatch < samples % microbatches ? 1 : 0);
}

std::int64_t smallest_microbatch(std::int64_t samples, int microbatches) {
  return std::max<std::int64_t>(1, microbatch_samples(samples, microbatches, microbatches - 1));
}

} // namespace penstock::planner
