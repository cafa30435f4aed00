// Enumerates credits between the published ones.
#include "planner/explore/credit_choices.hpp"

#include "planner/presets.hpp"
#include "planner/schedule.hpp"

#include <algorithm>
#include <cmath>

namespace penstock::planner {

namespace {

using counts = std::vector<std::int64_t>;

// More in flight than this per hop hides nothing that a pipeline worth running has.
constexpr double most_link_periods = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// K_i = V_i + ceil(alpha (V_i - 1)): from tight (0) to doubled (1), as BaPipe's K sweep goes.
counts between(const counts& tight, double alpha) {
  auto credits = tight;
  for (auto& k : credits)
    k += static_cast<std::int64_t>(std::ceil(alpha * static_cast<double>(k - 1)));
  return credits;
}

/// Raises earlier stages until (K_s - 1) R_s does not grow.
void make_valid(counts& credits, const std::vector<int>& replicas) {
  for (auto s = credits.size(); s-- > 1;)
    credits[s - 1] = std::max(credits[s - 1], 1 + ceil_div((credits[s] - 1) * replicas[s], replicas[s - 1]));
}

bool two_versions_suffice(const counts& credits, const std::vector<int>& replicas, int microbatches) {
  for (std::size_t s = 0; s < credits.size(); ++s)
    if ((credits[s] - 1) * replicas[s] > microbatches) return false;
  return true;
}

} // namespace

std::vector<counts> credit_choices(const std::string& schedule, const std::vector<int>& replicas, int microbatches,
                                   double link_periods) {
  const auto& p = find_preset(schedule);
  if (p.credit == credit_default::one) return {counts(replicas.size(), 1)};
  counts share;
  for (const auto r : replicas)
    share.push_back(ceil_div(microbatches, r));
  if (p.credit == credit_default::whole_minibatch) return {share};

  const auto tight = tight_credits(replicas);
  std::vector<counts> wanted{p.credit == credit_default::doubled ? between(tight, 1) : tight};
  if (p.flush == flush_point::drain) {
    auto hiding = tight;
    for (std::size_t s = 0; s < replicas.size(); ++s)
      if (replicas[s] > 1) hiding[s] = std::max<std::int64_t>(hiding[s], 2);
    wanted.push_back(hiding);
  }
  if (!p.splits_backward) { // zb-h1 with more in flight is on its way to zb-h2
    for (const auto alpha : {0.25, 0.5, 0.75, 1.0})
      wanted.push_back(between(tight, alpha));
    wanted.push_back(full_credits(replicas, std::clamp(link_periods, 0.0, most_link_periods)));
  }

  std::vector<counts> choices;
  for (auto& credits : wanted) {
    if (p.flush == flush_point::minibatch)
      for (std::size_t s = 0; s < credits.size(); ++s)
        credits[s] = std::min(credits[s], share[s]);
    make_valid(credits, replicas);
    if (p.unit == update_unit::minibatch_after_next && !two_versions_suffice(credits, replicas, microbatches)) continue;
    if (std::find(choices.begin(), choices.end(), credits) == choices.end()) choices.push_back(credits);
  }
  return choices;
}

} // namespace penstock::planner
