// Three rules and a parser.
#include "actors/freeze/freeze_policies.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace penstock::actors {

namespace {

// What sums and powers of the usual numbers of units are off by, and more.
constexpr double rounding = 1e-9;

int rounded_up(double exact, int units) {
  return std::clamp(static_cast<int>(std::ceil(exact - rounding * units)), 0, units);
}

int units_of(const freeze_statistics& seen) {
  return static_cast<int>(seen.units.size());
}

void require_fraction(double alpha) {
  if (!(alpha > 0 && alpha < 1))
    throw usage_error(fmt::format("alpha is {}, wanted more than 0 and less than 1", alpha));
}

class schedule final : public freeze_policy {
public:
  explicit schedule(double alpha) : alpha_(alpha) { require_fraction(alpha); }
  std::string text() const override { return fmt::format("schedule:alpha={}", alpha_); }
  bool reads_gradients() const override { return false; }
  int depth(const freeze_statistics& seen) const override {
    return geometric_depth(alpha_, units_of(seen), seen.interval);
  }

private:
  double alpha_;
};

class gradient_norm final : public freeze_policy {
public:
  explicit gradient_norm(double alpha) : alpha_(alpha) { require_fraction(alpha); }
  std::string text() const override { return fmt::format("gradient-norm:alpha={}", alpha_); }
  int depth(const freeze_statistics& seen) const override {
    const int units = units_of(seen);
    const int most = rounded_up(seen.depth + alpha_ * (units - seen.depth), units);
    int least = -1;
    for (int u = seen.depth; u < units; ++u) {
      const auto norm = seen.units[static_cast<std::size_t>(u)].gradient_norm;
      if (std::isfinite(norm) && (least < 0 || norm < seen.units[static_cast<std::size_t>(least)].gradient_norm))
        least = u;
    }
    return least < 0 ? seen.depth : std::min(most, least + 1);
  }

private:
  double alpha_;
};

// Nothing where the unit has no two norms.
std::optional<double> change_of(const freeze_unit_seen& unit) {
  if (!std::isfinite(unit.gradient_norm) || !std::isfinite(unit.norm_before)) return std::nullopt;
  const auto change = std::abs(unit.norm_before - unit.gradient_norm);
  return change == 0 ? 0 : change / unit.norm_before;
}

double percentile_of(std::vector<double> sorted, double percentile) {
  const auto place = percentile / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const auto part = place - std::floor(place);
  if (part == 0 || sorted[below] == sorted[below + 1]) return sorted[below];
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

class percentile_rule final : public freeze_policy {
public:
  explicit percentile_rule(double percentile) : percentile_(percentile) {
    if (!(percentile > 0 && percentile < 100))
      throw usage_error(fmt::format("the percentile is {}, wanted more than 0 and less than 100", percentile));
  }
  std::string text() const override { return fmt::format("percentile:{}", percentile_); }
  int depth(const freeze_statistics& seen) const override {
    std::vector<double> changes;
    for (auto u = static_cast<std::size_t>(seen.depth); u < seen.units.size(); ++u)
      if (const auto change = change_of(seen.units[u])) changes.push_back(*change);
    if (changes.empty()) return seen.depth;
    std::sort(changes.begin(), changes.end());
    const auto bar = percentile_of(changes, percentile_);
    auto u = static_cast<std::size_t>(seen.depth);
    for (; u < seen.units.size(); ++u) {
      if (seen.units[u].parameters == 0) continue;
      const auto change = change_of(seen.units[u]);
      if (!change || *change >= bar) break;
    }
    return static_cast<int>(u);
  }

private:
  double percentile_;
};

const std::vector<std::string>& own_names() {
  static const std::vector<std::string> names{"schedule", "gradient-norm", "percentile", "off"};
  return names;
}

double parse_alpha(const std::string& name, std::string_view options) {
  const auto equals = options.find('=');
  const auto key = options.substr(0, equals);
  if (options.empty() || key == "alpha") {
    const auto value = equals == std::string_view::npos ? std::string_view() : options.substr(equals + 1);
    if (value.empty()) throw usage_error("found " + in_quotes(name) + " without alpha, wanted " + name + ":alpha=A");
    const auto alpha = parse_fraction(value);
    if (!alpha)
      throw usage_error(name + ": alpha is " + in_quotes(value) + ", wanted a number or a fraction such as 1/3");
    return *alpha;
  }
  const std::vector<std::string> keys{"alpha"};
  throw usage_error(name + " has no setting " + in_quotes(key) + did_you_mean(key, keys) + "; it has alpha");
}

double parse_percentile(std::string_view options) {
  const auto value = parse_fraction(options);
  if (!value || options.find('/') != std::string_view::npos)
    throw usage_error("percentile: found " + in_quotes(options) + ", wanted percentile:P with P between 0 and 100");
  return *value;
}

freeze_policy_ptr make_of_plugin(const plugin_freeze_policy& found, std::string_view options) {
  const auto who = "[plugin] " + found.plugin + ": freeze policy '" + found.name + "': ";
  try {
    if (auto made = found.make(options)) return made;
  } catch (const std::exception& e) {
    throw usage_error(who + e.what());
  }
  throw usage_error(who + "its factory gave none");
}

} // namespace

int geometric_depth(double alpha, int units, std::int64_t interval) {
  const auto active = std::exp(static_cast<double>(interval) * std::log1p(-alpha));
  return rounded_up(units * (1 - active), units);
}

freeze_policy_ptr schedule_policy(double alpha) {
  return std::make_shared<schedule>(alpha);
}

freeze_policy_ptr gradient_norm_policy(double alpha) {
  return std::make_shared<gradient_norm>(alpha);
}

freeze_policy_ptr percentile_policy(double percentile) {
  return std::make_shared<percentile_rule>(percentile);
}

std::optional<double> parse_fraction(std::string_view text) {
  const auto number = [](std::string_view part) -> std::optional<double> {
    double value = 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (part.empty() || problem != std::errc{} || end != part.data() + part.size() || !std::isfinite(value))
      return std::nullopt;
    return value;
  };
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return number(text);
  const auto above = number(text.substr(0, slash)), below = number(text.substr(slash + 1));
  if (!above || !below || *below == 0) return std::nullopt;
  return *above / *below;
}

bool is_freeze_policy(std::string_view name) {
  return name == "replay" || std::find(own_names().begin(), own_names().end(), name) != own_names().end();
}

freeze_policy_ptr parse_freeze_policy(std::string_view text, std::span<const plugin_freeze_policy> plugins) {
  const auto colon = text.find(':');
  const std::string name(text.substr(0, colon));
  const auto options = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (name == "off") {
    if (colon != std::string_view::npos) throw usage_error("found " + in_quotes(text) + ", wanted off alone");
    return nullptr;
  }
  if (name == "schedule") return schedule_policy(parse_alpha(name, options));
  if (name == "gradient-norm") return gradient_norm_policy(parse_alpha(name, options));
  if (name == "percentile") return percentile_policy(parse_percentile(options));
  auto names = own_names();
  for (const auto& p : plugins) {
    if (p.name == name) return make_of_plugin(p, options);
    names.push_back(p.name);
  }
  throw usage_error("unknown policy " + in_quotes(name) + did_you_mean(name, names) + "; there are " +
                    join(names, ", "));
}

} // namespace penstock::actors
