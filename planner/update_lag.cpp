// Update lags: reading them, and which schedules may have them.
#include "planner/update_lag.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>

namespace penstock::planner {

namespace {

// Every update of lag holds one more version and one more gradient set; keeps K + d far from overflow.
constexpr std::int64_t most_lag = 1'000'000;

void check_range(const std::vector<std::int64_t>& lags) {
  for (std::size_t s = 0; s < lags.size(); ++s)
    if (lags[s] < 0 || lags[s] > most_lag)
      throw std::invalid_argument("update-lag of stage " + std::to_string(s) + " is " + std::to_string(lags[s]) +
                                  ", wanted 0 to " + std::to_string(most_lag));
}

std::int64_t parse_lag(std::string_view field, std::string_view text) {
  std::int64_t value = 0;
  const auto* end = field.data() + field.size();
  const auto [stop, failure] = std::from_chars(field.data(), end, value);
  if (failure != std::errc{} || stop != end)
    throw std::invalid_argument("update-lag '" + std::string(text.substr(0, 80)) +
                                "': wanted a number of updates, or one per stage such as 1,0");
  return value;
}

} // namespace

std::vector<std::int64_t> parse_update_lag(std::string_view text) {
  std::vector<std::int64_t> lags;
  for (auto rest = text;;) {
    const auto comma = rest.find(',');
    lags.push_back(parse_lag(rest.substr(0, comma), text));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  check_range(lags);
  return lags;
}

bool may_lag(const preset& p) {
  return p.unit == update_unit::replica_group && p.versions == version_rule::stashed;
}

std::vector<std::int64_t> resolve_update_lag(const preset& p, const schedule_request& request) {
  auto lags = request.update_lag;
  const auto stages = request.replicas.size() * static_cast<std::size_t>(std::max(1, request.chunks));
  const auto frozen = static_cast<std::ptrdiff_t>(request.frozen_stages);
  check_range(lags);
  if (lags.size() <= 1) {
    lags.assign(stages, lags.empty() ? 0 : lags.front());
    std::fill(lags.begin(), lags.begin() + frozen, 0);
  }
  if (lags.size() != stages)
    throw std::invalid_argument("update-lag has " + std::to_string(lags.size()) + " counts for " +
                                std::to_string(stages) + " stages, wanted one for all or one per stage");
  for (std::ptrdiff_t s = 0; s < frozen; ++s)
    if (const auto lag = lags[static_cast<std::size_t>(s)]; lag > 0)
      throw std::invalid_argument("update-lag of stage " + std::to_string(s) + " is " + std::to_string(lag) +
                                  ", wanted 0: the stage is frozen and has no update");
  const auto lagging = std::find_if(lags.begin(), lags.end(), [](auto d) { return d > 0; });
  if (lagging != lags.end() && !may_lag(p))
    throw std::invalid_argument(std::string(p.name) + " has no update lag: update-lag of stage " +
                                std::to_string(lagging - lags.begin()) + " is " + std::to_string(*lagging) +
                                ", wanted 0; only pipedream may have one");
  return lags;
}

} // namespace penstock::planner
