// Random schedules within what may be asked for, from fixed seeds.
#pragma once

#include "planner/schedule.hpp"

#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace penstock::planner::testing {

class dice {
public:
  explicit dice(unsigned seed) : engine_(seed) {}
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  double number(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  double time() { return number(0.1, 3); }
  bool coin() { return between(0, 1) == 1; }

private:
  std::mt19937 engine_;
};

/// Random credits under which (K_s - 1) R_s does not grow.
inline std::vector<std::int64_t> random_credits(dice& d, const std::vector<int>& replicas) {
  std::vector<std::int64_t> credits(replicas.size());
  std::int64_t least = 0;
  for (auto s = replicas.size(); s-- > 0;) {
    credits[s] = 1 + (least + replicas[s] - 1) / replicas[s] + d.between(0, 2);
    least = (credits[s] - 1) * replicas[s];
  }
  return credits;
}

/// Some of the stages at the front, which may have other replica counts and any credits then, and no lag.
inline void freeze_some(dice& d, schedule_request& r) {
  if (r.name == "interleaved" || r.replicas.size() < 2 || d.coin()) return;
  r.frozen_stages = d.between(0, static_cast<int>(r.replicas.size()) - 1);
  if (r.frozen_stages > 0) r.ahead = d.between(0, 5);
  for (std::size_t s = 0; s < static_cast<std::size_t>(r.frozen_stages); ++s) {
    r.replicas[s] = d.between(1, 3);
    if (!r.in_flight.given.empty()) r.in_flight.given[s] = d.between(1, 3);
    if (!r.update_lag.empty()) r.update_lag[s] = 0;
  }
}

inline schedule_request random_request(dice& d) {
  const auto names = schedule_names();
  schedule_request r;
  r.name = names[static_cast<std::size_t>(d.between(0, static_cast<int>(names.size()) - 1))];
  const auto stages = r.name == "data-parallel" ? 1 : d.between(1, 5);
  r.replicas.assign(static_cast<std::size_t>(stages), d.between(1, 3));
  const bool is_interleaved = r.name == "interleaved";
  if (is_interleaved) r.chunks = d.between(1, 4);
  if (r.name != "pipedream-vertical-sync" && !is_interleaved)
    for (auto& replicas : r.replicas)
      replicas = d.between(1, 3);
  r.microbatches = r.name.starts_with("pipedream") ? 1 : d.between(0, 6);
  r.minibatches = d.between(0, 12);
  r.window = d.between(0, 3);
  if (!is_interleaved) r.in_flight.kind = static_cast<in_flight_spec::mode>(d.between(0, 4));
  if (r.in_flight.kind == in_flight_spec::mode::given) {
    r.in_flight.given = random_credits(d, r.replicas);
    for (std::size_t s = 0; s < r.replicas.size(); ++s) {
      if (r.name == "model-parallel") r.in_flight.given[s] = 1;
      if (r.name == "gpipe") r.in_flight.given[s] += (r.microbatches + r.replicas[s] - 1) / r.replicas[s];
    }
  }
  if (r.name == "pipedream" && d.coin())
    for (std::size_t s = 0; s < r.replicas.size(); ++s)
      r.update_lag.push_back(d.between(0, 2));
  freeze_some(d, r);
  if (r.name == "2bw") {
    const auto extra = d.between(0, 3);
    r.microbatches = 0;
    r.microbatches = resolve_schedule(r).microbatches + extra;
  }
  return r;
}

inline std::string show(const schedule_request& r) {
  std::ostringstream text;
  text << r.name << " replicas";
  for (const auto n : r.replicas)
    text << ' ' << n;
  if (r.chunks > 1) text << " chunks " << r.chunks;
  text << " M " << r.microbatches << " T " << r.minibatches << " window " << r.window << " credit mode "
       << static_cast<int>(r.in_flight.kind);
  for (const auto k : r.in_flight.given)
    text << ' ' << k;
  for (const auto lag : r.update_lag)
    text << (&lag == &r.update_lag.front() ? " lag " : " ") << lag;
  if (r.frozen_stages > 0) text << " frozen " << r.frozen_stages << " ahead " << r.ahead;
  return text.str();
}

} // namespace penstock::planner::testing
