// Lines of JSON and their checks.
#include "actors/freeze/freeze_log.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

namespace penstock::actors {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int format_version = 1;
constexpr std::string_view check_key = ",\"check\":\"";
constexpr std::size_t check_digits = 16;

// FNV-1a: tells accidents, not forgers.
std::uint64_t mixed(std::uint64_t hash, std::string_view text) {
  if (hash == 0) hash = 0xcbf29ce484222325ULL;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json();
}

ordered_json object_of(const freeze_decision& d) {
  auto units = ordered_json::array();
  for (const auto& unit : d.seen.units) {
    auto layers = ordered_json::array();
    for (const auto& layer : unit.layers)
      layers.push_back({{"name", layer.name}, {"parameters", layer.parameters}, {"norm", number(layer.gradient_norm)}});
    units.push_back({{"name", unit.name},
                     {"parameters", unit.parameters},
                     {"norm", number(unit.gradient_norm)},
                     {"norm_before", number(unit.norm_before)},
                     {"layers", std::move(layers)}});
  }
  return {{"decision", d.number},
          {"step", d.seen.step},
          {"epochs", number(d.seen.epochs)},
          {"interval", d.seen.interval},
          {"policy", d.policy},
          {"guards", d.guards},
          {"depth_before", d.seen.depth},
          {"asked", d.asked},
          {"depth", d.depth},
          {"frozen_until", d.frozen_until},
          {"thaws", d.thaws},
          {"why", d.why},
          {"training_loss", number(d.seen.training_loss)},
          {"validation_loss", number(d.seen.validation_loss)},
          {"lr", number(d.seen.learning_rate)},
          {"lr_at_freeze", number(d.seen.rate_at_freeze)},
          {"units", std::move(units)}};
}

std::string dumped(const ordered_json& object) {
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// One line of a log, read as if a stranger had written it.
class line_reader {
public:
  line_reader(const std::string& source, std::size_t number, const json& object)
      : where_(fmt::format("{}: line {}: ", source, number)), object_(object) {}

  [[noreturn]] void fail(const std::string& what) const { throw error(where_ + what); }
  const json& member(const json& of, const char* name) const {
    const auto found = of.find(name);
    if (found == of.end()) fail(fmt::format("lacks \"{}\"", name));
    return *found;
  }
  const json& member(const char* name) const { return member(object_, name); }
  std::int64_t whole(const json& of, const char* name, std::int64_t least, std::int64_t most) const {
    const auto& value = member(of, name);
    const bool fits = value.is_number_integer() &&
                      !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) &&
                      value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
    if (!fits)
      fail(
          fmt::format("\"{}\" is {}, wanted a whole number from {} to {}", name, shortened(value.dump()), least, most));
    return value.get<std::int64_t>();
  }
  double real(const json& of, const char* name) const {
    const auto& value = member(of, name);
    if (value.is_null()) return not_seen;
    if (!value.is_number()) fail(fmt::format("\"{}\" is {}, wanted a number or null", name, shortened(value.dump())));
    return value.get<double>();
  }
  std::string text(const json& of, const char* name) const {
    const auto& value = member(of, name);
    if (!value.is_string()) fail(fmt::format("\"{}\" is {}, wanted a text", name, shortened(value.dump())));
    return value.get<std::string>();
  }
  bool truth(const char* name) const {
    const auto& value = member(name);
    if (!value.is_boolean()) fail(fmt::format("\"{}\" is {}, wanted true or false", name, shortened(value.dump())));
    return value.get<bool>();
  }
  const json& list(const json& of, const char* name) const {
    const auto& value = member(of, name);
    if (!value.is_array()) fail(fmt::format("\"{}\" is {}, wanted a list", name, shortened(value.dump())));
    for (const auto& one : value)
      if (!one.is_object() && !one.is_string()) fail(fmt::format("\"{}\" holds {}", name, shortened(one.dump())));
    return value;
  }
  const json& object() const { return object_; }

private:
  std::string where_;
  const json& object_;
};

freeze_log_header header_from(const line_reader& line) {
  const auto version = line.whole(line.object(), "freeze_log", 1, INT64_MAX);
  if (version != format_version) line.fail(fmt::format("is of form {}, wanted {}", version, format_version));
  freeze_log_header of;
  of.model = line.text(line.object(), "model");
  for (const auto& name : line.list(line.object(), "units")) {
    if (!name.is_string()) line.fail("\"units\" holds " + shortened(name.dump()) + ", wanted names");
    of.units.push_back(name.get<std::string>());
  }
  return of;
}

freeze_decision decision_from(const line_reader& line, const freeze_log& so_far) {
  const auto& object = line.object();
  const auto units = static_cast<std::int64_t>(so_far.of.units.size());
  const auto* before = so_far.decisions.empty() ? nullptr : &so_far.decisions.back();
  freeze_decision d;
  const auto next = static_cast<std::int64_t>(so_far.decisions.size()) + 1;
  d.number = line.whole(object, "decision", next, next);
  d.seen.step = line.whole(object, "step", before != nullptr ? before->seen.step + 1 : 1, INT64_MAX);
  d.seen.epochs = line.real(object, "epochs");
  d.seen.interval = line.whole(object, "interval", 1, INT64_MAX);
  d.policy = line.text(object, "policy");
  d.guards = line.text(object, "guards");
  const auto depth = before != nullptr ? before->depth : 0;
  d.seen.depth = static_cast<int>(line.whole(object, "depth_before", depth, depth));
  d.asked = static_cast<int>(line.whole(object, "asked", 0, units));
  d.depth = static_cast<int>(line.whole(object, "depth", 0, units));
  d.frozen_until = line.text(object, "frozen_until");
  d.thaws = line.truth("thaws");
  d.why = line.text(object, "why");
  d.seen.training_loss = line.real(object, "training_loss");
  d.seen.validation_loss = line.real(object, "validation_loss");
  d.seen.learning_rate = line.real(object, "lr");
  d.seen.rate_at_freeze = line.real(object, "lr_at_freeze");
  for (const auto& unit : line.list(object, "units")) {
    if (!unit.is_object()) line.fail("\"units\" holds " + shortened(unit.dump()));
    freeze_unit_seen one;
    one.name = line.text(unit, "name");
    one.parameters = line.whole(unit, "parameters", 0, INT64_MAX);
    one.gradient_norm = line.real(unit, "norm");
    one.norm_before = line.real(unit, "norm_before");
    for (const auto& layer : line.list(unit, "layers")) {
      if (!layer.is_object()) line.fail("\"layers\" holds " + shortened(layer.dump()));
      one.layers.push_back(
          {line.text(layer, "name"), line.whole(layer, "parameters", 0, INT64_MAX), line.real(layer, "norm")});
    }
    d.seen.units.push_back(std::move(one));
  }
  if (d.seen.units.size() != so_far.of.units.size())
    line.fail(fmt::format("tells of {} units, wanted the {} of the first line", d.seen.units.size(), units));
  return d;
}

// The line without its check.
std::string unchecked(std::string_view line, std::uint64_t& check, const std::string& where) {
  const auto behind = check_digits + 2; // "}
  const auto wanted = check_key.size() + behind;
  if (line.size() < wanted || line.substr(line.size() - wanted, check_key.size()) != check_key ||
      !line.ends_with("\"}"))
    throw error(where + "has no check at its end: the file is cut off, or no freeze log");
  auto object = std::string(line.substr(0, line.size() - wanted)) + "}";
  check = mixed(check, object);
  if (line.substr(line.size() - behind, check_digits) != fmt::format("{:016x}", check))
    throw error(where + "does not agree with its check: it was altered, or lines before it are missing");
  return object;
}

} // namespace

freeze_log_header log_header_of(const model& net) {
  freeze_log_header of{net.name(), {}};
  const freeze_units units(net);
  for (const auto& unit : units.all())
    of.units.push_back(unit.name);
  return of;
}

std::string json_of(const freeze_decision& decision) {
  return dumped(object_of(decision));
}

std::string freeze_log_lines::checked(std::string object) {
  check_ = mixed(check_, object);
  object.pop_back();
  return fmt::format("{}{}{:016x}\"}}\n", object, check_key, check_);
}

std::string freeze_log_lines::begin(const freeze_log_header& of) {
  return checked(dumped({{"freeze_log", format_version}, {"model", of.model}, {"units", of.units}}));
}

std::string freeze_log_lines::add(const freeze_decision& decision) {
  ++decisions_;
  return checked(json_of(decision));
}

std::string freeze_log_lines::end() {
  return checked(dumped({{"end", true}, {"decisions", decisions_}}));
}

freeze_log parse_freeze_log(const std::string& text, const std::string& source) {
  freeze_log log;
  std::uint64_t check = 0;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const auto where = fmt::format("{}: line {}: ", source, number + 1);
    const auto line_end = text.find('\n', at);
    if (line_end == std::string::npos) throw error(where + "does not end: the file is cut off, or no freeze log");
    const auto object = unchecked(std::string_view(text).substr(at, line_end - at), check, where);
    at = line_end + 1;
    const auto parsed = json::parse(object, nullptr, false);
    if (!parsed.is_object()) throw error(where + "is no JSON object");
    const line_reader line(source, number + 1, parsed);
    if (log.is_complete) line.fail("stands behind the last one");
    if (number == 0)
      log.of = header_from(line);
    else if (parsed.contains("end"))
      log.is_complete = line.whole(parsed, "decisions", static_cast<std::int64_t>(log.decisions.size()),
                                   static_cast<std::int64_t>(log.decisions.size())) >= 0;
    else
      log.decisions.push_back(decision_from(line, log));
  }
  if (number == 0) throw error(source + ": is empty, wanted a freeze log");
  return log;
}

void require_repeatable(const freeze_log& log, const model& net, const std::string& source) {
  const auto wanted = log_header_of(net);
  if (log.of.model != wanted.model)
    throw usage_error(source + ": is of " + in_quotes(log.of.model) + ", wanted one of " + net.name());
  if (log.of.units != wanted.units)
    throw usage_error(fmt::format("{}: is of {} units from {} on, {} has {} from {} on", source, log.of.units.size(),
                                  log.of.units.empty() ? "none" : in_quotes(log.of.units.front()), net.name(),
                                  wanted.units.size(),
                                  wanted.units.empty() ? "none" : in_quotes(wanted.units.front())));
  const freeze_units units(net);
  for (const auto& d : log.decisions)
    if (d.frozen_until != units.frozen_until(d.depth))
      throw usage_error(fmt::format("{}: decision {} freezes {} units and all before {}, wanted all before {}", source,
                                    d.number, d.depth, in_quotes(d.frozen_until),
                                    in_quotes(units.frozen_until(d.depth))));
  if (!log.is_complete)
    throw usage_error(fmt::format("{}: ends after decision {} without its last line: the run that wrote it did not "
                                  "come to its end",
                                  source, log.decisions.size()));
}

} // namespace penstock::actors
