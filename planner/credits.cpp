// The credits K_s: the published ones, rule 2's for full speed, and those a person gives.
#include "planner/credits.hpp"

#include "planner/interleaved.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace penstock::planner {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// K times replicas must fit in 64 bits.
constexpr std::int64_t most_credits = std::numeric_limits<std::int32_t>::max();

std::int64_t parse_credit(std::string_view field, std::size_t stage, std::string_view text) {
  std::int64_t value = 0;
  const auto* end = field.data() + field.size();
  const auto [stop, failure] = std::from_chars(field.data(), end, value);
  if (failure == std::errc::result_out_of_range)
    throw std::invalid_argument("in-flight of stage " + std::to_string(stage) + " is out of range in '" +
                                std::string(text.substr(0, 80)) + "'");
  if (failure != std::errc{} || stop != end)
    throw std::invalid_argument("in-flight '" + std::string(text.substr(0, 80)) +
                                "': wanted tight, double, full or one count per stage such as 3,2,1");
  return value;
}

void check_range(const std::vector<std::int64_t>& credits) {
  for (std::size_t s = 0; s < credits.size(); ++s)
    if (credits[s] < 1 || credits[s] > most_credits)
      throw std::invalid_argument("in-flight of stage " + std::to_string(s) + " is " + std::to_string(credits[s]) +
                                  ", wanted " +
                                  (credits[s] < 1 ? "at least 1" : "at most " + std::to_string(most_credits)));
}

/// From the first active stage on: what is frozen waits for no gradient.
void check_does_not_grow(const std::vector<std::int64_t>& credits, const std::vector<int>& replicas,
                         std::size_t first) {
  for (auto s = first + 1; s < credits.size(); ++s) {
    const auto before = (credits[s - 1] - 1) * replicas[s - 1];
    const auto here = (credits[s] - 1) * replicas[s];
    if (here > before)
      throw std::invalid_argument("in-flight " + std::to_string(credits[s]) + " of stage " + std::to_string(s) +
                                  " can deadlock: (K - 1) x replicas is " + std::to_string(here) + " there and " +
                                  std::to_string(before) + " on stage " + std::to_string(s - 1) +
                                  "; wanted K at most " + std::to_string(before / replicas[s] + 1));
  }
}

/// Interleaved: its order holds what its warm-up gives, so no fewer will do and more are of no use to a replica.
std::vector<std::int64_t> warm_up_credits(const preset& p, const schedule_request& request, int microbatches) {
  const auto own = interleaved_credits(static_cast<int>(request.replicas.size()), request.chunks,
                                       request.replicas.front(), microbatches);
  using mode = in_flight_spec::mode;
  if (request.in_flight.kind == mode::standard) return own;
  const auto name = std::string(p.name);
  if (request.in_flight.kind != mode::given)
    throw std::invalid_argument("in-flight of " + name + " follows from its warm-up: leave it out");
  const auto& given = request.in_flight.given;
  if (given.size() != own.size())
    throw std::invalid_argument("in-flight has " + std::to_string(given.size()) + " counts for " +
                                std::to_string(own.size()) + " stages, wanted one per stage");
  check_range(given);
  for (std::size_t s = 0; s < own.size(); ++s)
    if (given[s] < own[s])
      throw std::invalid_argument(name + " holds what its warm-up gives: in-flight of stage " + std::to_string(s) +
                                  " is " + std::to_string(given[s]) + ", wanted at least " + std::to_string(own[s]) +
                                  " for " + std::to_string(microbatches) + " micro-batches");
  return given;
}

void check_given(const preset& p, const schedule_request& request, int microbatches) {
  const auto& credits = request.in_flight.given;
  const auto& replicas = request.replicas;
  const auto first = static_cast<std::size_t>(request.frozen_stages);
  if (credits.size() != replicas.size())
    throw std::invalid_argument("in-flight has " + std::to_string(credits.size()) + " counts for " +
                                std::to_string(replicas.size()) + " stages, wanted one per stage");
  check_range(credits);
  for (auto s = first; s < credits.size(); ++s) {
    const auto name = std::string(p.name);
    if (p.credit == credit_default::one && credits[s] != 1)
      throw std::invalid_argument(name + " has one in flight: in-flight of stage " + std::to_string(s) + " is " +
                                  std::to_string(credits[s]) + ", wanted 1");
    const auto share = ceil_div(microbatches, replicas[s]);
    if (p.credit == credit_default::whole_minibatch && credits[s] < share)
      throw std::invalid_argument(name + " holds a whole minibatch: in-flight of stage " + std::to_string(s) + " is " +
                                  std::to_string(credits[s]) + ", wanted at least " + std::to_string(share) + " for " +
                                  std::to_string(microbatches) + " micro-batches on " + std::to_string(replicas[s]) +
                                  " replicas");
  }
  // A schedule that holds whole minibatches everywhere cannot deadlock, and its own default may grow by rounding.
  if (p.credit != credit_default::whole_minibatch) check_does_not_grow(credits, replicas, first);
}

std::vector<std::int64_t> credits_of_mode(in_flight_spec::mode kind, const std::vector<int>& replicas) {
  if (kind == in_flight_spec::mode::full) return full_credits(replicas);
  auto credits = tight_credits(replicas);
  if (kind == in_flight_spec::mode::doubled)
    for (auto& k : credits)
      k = 2 * k - 1;
  return credits;
}

} // namespace

in_flight_spec parse_in_flight(std::string_view text) {
  using mode = in_flight_spec::mode;
  if (text == "tight") return {mode::tight, {}};
  if (text == "double") return {mode::doubled, {}};
  if (text == "full") return {mode::full, {}};
  in_flight_spec spec{mode::given, {}};
  for (auto rest = text;;) {
    const auto comma = rest.find(',');
    spec.given.push_back(parse_credit(rest.substr(0, comma), spec.given.size(), text));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  check_range(spec.given);
  return spec;
}

std::vector<std::int64_t> tight_credits(const std::vector<int>& replicas) {
  std::vector<std::int64_t> credits(replicas.size());
  std::int64_t from_here = 0;
  for (auto s = replicas.size(); s-- > 0;) {
    from_here += replicas[s];
    credits[s] = ceil_div(from_here, replicas[s]);
  }
  return credits;
}

std::vector<std::int64_t> full_credits(const std::vector<int>& replicas, double lambda) {
  if (!(lambda >= 0) || lambda > 1e6)
    throw std::invalid_argument("link time is " + std::to_string(lambda) + " periods, wanted 0 to 1e6");
  std::vector<std::int64_t> credits(replicas.size(), 1);
  for (auto s = replicas.size(); s-- > 1;) {
    const std::int64_t here = replicas[s - 1], next = replicas[s];
    const auto minibatches = credits[s] * next + here + next - 2 * std::gcd(here, next);
    credits[s - 1] = 1 + static_cast<std::int64_t>(
                             std::ceil((static_cast<double>(minibatches) + 2 * lambda) / static_cast<double>(here)));
  }
  return credits;
}

namespace {

/// What is right for active stages; those of a mode follow from a stage's own replicas and the later ones'.
std::vector<std::int64_t> credits_by_rule(const preset& p, const schedule_request& request, int microbatches) {
  const auto& replicas = request.replicas;
  using mode = in_flight_spec::mode;
  if (p.credit == credit_default::one) return std::vector<std::int64_t>(replicas.size(), 1);
  if (p.credit == credit_default::tight) return credits_of_mode(request.in_flight.kind, replicas);
  if (p.credit == credit_default::doubled)
    return credits_of_mode(request.in_flight.kind == mode::standard ? mode::doubled : request.in_flight.kind, replicas);
  std::vector<std::int64_t> credits(replicas.size(), 1);
  if (request.in_flight.kind != mode::standard) credits = credits_of_mode(request.in_flight.kind, replicas);
  for (std::size_t s = 0; s < credits.size(); ++s)
    credits[s] = std::max(credits[s], ceil_div(microbatches, replicas[s]));
  return credits;
}

} // namespace

std::vector<std::int64_t> resolve_credits(const preset& p, const schedule_request& request, int microbatches) {
  if (p.credit == credit_default::warm_up) return warm_up_credits(p, request, microbatches);
  if (request.in_flight.kind == in_flight_spec::mode::given) {
    check_given(p, request, microbatches);
    return request.in_flight.given;
  }
  auto credits = credits_by_rule(p, request, microbatches);
  std::fill(credits.begin(), credits.begin() + request.frozen_stages, 1); // one after another
  return credits;
}

} // namespace penstock::planner
