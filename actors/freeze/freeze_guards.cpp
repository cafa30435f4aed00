// Guards by their rules, thaws first.
#include "actors/freeze/freeze_guards.hpp"

#include "actors/freeze/freeze_policies.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock::actors {

namespace {

const std::vector<std::string>& keys() {
  static const std::vector<std::string> all{"min-epochs", "max-fraction", "thaw-worse", "thaw-rate"};
  return all;
}

void take(freeze_guards& guards, std::string_view part) {
  const auto equals = part.find('=');
  const auto key = part.substr(0, equals);
  if (std::find(keys().begin(), keys().end(), key) == keys().end())
    throw usage_error("no guard " + in_quotes(key) + did_you_mean(key, keys()) + "; there are " + join(keys(), ", "));
  if (key == "thaw-rate") {
    if (equals != std::string_view::npos) throw usage_error("found " + in_quotes(part) + ", wanted thaw-rate alone");
    guards.thaw_rate = true;
    return;
  }
  const auto given = equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
  const auto value = parse_fraction(given);
  const auto refuse = [&](const char* wanted) {
    throw usage_error(std::string(key) + " is " + in_quotes(given) + ", wanted " + wanted);
  };
  if (key == "max-fraction") {
    if (!value || !(*value > 0 && *value <= 1)) refuse("more than 0 and at most 1");
    guards.max_fraction = *value;
    return;
  }
  if (!value || *value < 0) refuse("a number of at least 0");
  if (key == "min-epochs") guards.min_epochs = *value;
  if (key == "thaw-worse") guards.thaw_worse = *value;
}

std::string reason_to_thaw(const freeze_guards& guards, const freeze_statistics& seen, double best) {
  if (seen.depth == 0) return "";
  // The rate is a float: what it differs by in its last places is no rise.
  constexpr double rise = 1 + 1e-6;
  if (guards.thaw_rate && seen.learning_rate > seen.rate_at_freeze * rise)
    return fmt::format("thaw-rate: the rate is {:.6g}, at the freeze it was {:.6g}", seen.learning_rate,
                       seen.rate_at_freeze);
  if (guards.thaw_worse && seen.validation_loss > best * (1 + *guards.thaw_worse))
    return fmt::format("thaw-worse: the validation loss is {:.6g}, the best was {:.6g}", seen.validation_loss, best);
  return "";
}

} // namespace

freeze_guards parse_freeze_guards(std::string_view text) {
  freeze_guards guards;
  if (text.empty() || text == "off") return guards;
  for (std::size_t at = 0; at <= text.size();) {
    const auto comma = std::min(text.find(',', at), text.size());
    take(guards, text.substr(at, comma - at));
    at = comma + 1;
  }
  return guards;
}

std::string text_of(const freeze_guards& guards) {
  std::vector<std::string> parts;
  if (guards.min_epochs > 0) parts.push_back(fmt::format("min-epochs={}", guards.min_epochs));
  if (guards.max_fraction < 1) parts.push_back(fmt::format("max-fraction={}", guards.max_fraction));
  if (guards.thaw_worse) parts.push_back(fmt::format("thaw-worse={}", *guards.thaw_worse));
  if (guards.thaw_rate) parts.emplace_back("thaw-rate");
  return parts.empty() ? "off" : join(parts, ",");
}

guarded_depth guard_depth(const freeze_guards& guards, const freeze_statistics& seen, int asked, double best) {
  if (auto why = reason_to_thaw(guards, seen, best); !why.empty()) return {0, true, std::move(why)};
  asked = std::max(asked, seen.depth);
  if (asked == seen.depth) return {asked, false, ""};
  if (seen.epochs < guards.min_epochs)
    return {seen.depth, false, fmt::format("min-epochs: {:.6g} of {:.6g} are done", seen.epochs, guards.min_epochs)};
  const auto units = static_cast<double>(seen.units.size());
  constexpr double rounding = 1e-9; // a fraction of the units that is whole stays so
  const auto most = static_cast<int>(std::floor((guards.max_fraction + rounding) * units));
  if (asked <= most) return {asked, false, ""};
  return {std::max(most, seen.depth), false, fmt::format("max-fraction: {} of {} units", most, seen.units.size())};
}

} // namespace penstock::actors
