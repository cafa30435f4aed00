// Enumerates schedules and micro-batch counts.
#include "planner/explore/settings.hpp"

#include "planner/explore/trial.hpp"
#include "planner/presets.hpp"
#include "planner/update_lag.hpp"

#include <algorithm>
#include <limits>

namespace penstock::planner {

namespace {

// Beyond it nothing is left to gain from more, and simulating them takes long.
constexpr std::int64_t most_microbatches = 1024;

const preset& preset_of(const std::string& schedule) {
  // fbp-as keeps, updates and flushes as 1f1b does.
  return find_preset(schedule == fbp_schedule ? "1f1b" : schedule);
}

double least_samples_of(const profile& p) {
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const auto& m : p.measurements)
    least = std::min(least, m.samples);
  return std::max(static_cast<double>(least) / 2, static_cast<double>(p.least_samples));
}

std::vector<int> microbatch_counts(const profile& p, const plan_request& request, const pins& fixed,
                                   const std::string& schedule) {
  if (preset_of(schedule).unit == update_unit::replica_group) {
    const auto& given = request.microbatches;
    return given.empty() || std::count(given.begin(), given.end(), 1) > 0 ? std::vector{1} : std::vector<int>{};
  }
  if (!request.microbatches.empty()) return request.microbatches;
  return microbatches_worth_trying(p, fixed.batch, request.last_batch);
}

/// What a replicated stage may lag: nothing or one update, or what is pinned.
std::vector<std::int64_t> lags_of(const std::string& schedule, const pins& fixed) {
  if (schedule == fbp_schedule || !may_lag(find_preset(schedule))) return {0};
  if (fixed.update_lag) return {*std::max_element(fixed.update_lag->begin(), fixed.update_lag->end())};
  return {0, 1};
}

} // namespace

int rounded_microbatches(const setting& how, std::int64_t replicas, std::int64_t batch) {
  const std::int64_t m = how.search.microbatches;
  if (m % replicas == 0) return how.search.microbatches;
  if (how.microbatches_given) return 0;
  const auto multiple = (m + replicas - 1) / replicas * replicas;
  const bool fits = multiple <= 2 * m && multiple <= batch &&
                    static_cast<double>(batch) / static_cast<double>(multiple) >= how.least_samples;
  return fits ? static_cast<int>(multiple) : 0;
}

std::vector<int> microbatches_worth_trying(const profile& p, std::int64_t batch, std::int64_t last_batch) {
  std::vector<int> counts;
  const auto samples = static_cast<double>(batch);
  for (std::int64_t m = 1;
       m <= std::min(batch, most_microbatches) && samples / static_cast<double>(m) >= least_samples_of(p); m *= 2)
    if (trains_on(p, batch, last_batch, m)) counts.push_back(static_cast<int>(m));
  if (counts.empty()) counts.push_back(1);
  return counts;
}

search_request charges_of(const std::string& schedule, int microbatches, const plan_request& request) {
  const auto& preset = preset_of(schedule);
  search_request search;
  search.microbatches = microbatches;
  search.memory.optimizer_copies = request.optimizer_copies;
  search.memory.versions_follow_in_flight =
      preset.flush == flush_point::drain && preset.versions != version_rule::newest_for_backward;
  search.whole_minibatch_in_flight = preset.credit == credit_default::whole_minibatch;
  search.allow_recompute = request.allow_recompute;
  search.top = request.top;
  if (preset.flush == flush_point::minibatch || preset.credit == credit_default::one) {
    search.charge = update_charge::flush;
    search.memory.versions_follow_in_flight = false;
  } else if (preset.unit == update_unit::minibatch_after_next) {
    search.charge = update_charge::every_minibatch;
    search.memory = {.optimizer_copies = request.optimizer_copies,
                     .gradient_sets = 2,
                     .versions_follow_in_flight = false,
                     .versions = 2};
  }
  return search;
}

std::vector<setting> settings_of(const profile& p, const plan_request& request, const pins& fixed) {
  std::vector<setting> all;
  for (const auto& schedule : fixed.schedules)
    for (const auto m : microbatch_counts(p, request, fixed, schedule)) {
      auto search = charges_of(schedule, m, request);
      search.samples = static_cast<double>(fixed.batch) / m;
      search.stages = fixed.stages;
      search.use_all_devices = false; // fewer is a candidate like any other
      for (const auto lag : lags_of(schedule, fixed)) {
        search.update_lag = lag;
        all.push_back({schedule, search, !request.microbatches.empty(), least_samples_of(p)});
      }
    }
  return all;
}

} // namespace penstock::planner
