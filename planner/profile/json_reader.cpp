// Parsing with the checks that the library leaves out, and values that know where they stand.
#include "planner/profile/json_reader.hpp"

#include "planner/profile/wording.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

namespace penstock::planner {

namespace {

using nlohmann::json;

constexpr int deepest = 32;

/// Watches the parser: what it would pass over in silence.
class watch {
public:
  explicit watch(const std::string& source) : source_(source) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > deepest)
      throw std::invalid_argument(source_ + ": found lists and objects nested deeper than " + std::to_string(deepest) +
                                  " levels, wanted fewer");
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second)
      throw std::invalid_argument(source_ + ": found the key " + planner::quoted(parsed.get<std::string>()) +
                                  " twice in one object, wanted it once");
    return true;
  }

private:
  const std::string& source_;
  std::vector<std::set<std::string>> keys_; // of the objects that are open
};

} // namespace

json parse_json(std::string_view text, const std::string& source) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    throw std::invalid_argument(source + ": found an empty text, wanted JSON");
  watch seen(source);
  try {
    return json::parse(
        text, [&seen](int depth, json::parse_event_t event, const json& parsed) { return seen(depth, event, parsed); });
  } catch (const json::exception& fault) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...; last read: 'whatever the file holds'"
    std::string what = fault.what();
    what.erase(std::min(what.size(), what.find("; last read")));
    if (const auto code_end = what.find("] "); code_end != std::string::npos) what.erase(0, code_end + 2);
    throw std::invalid_argument(source + ": " + what + ", wanted JSON");
  }
}

void json_value::refuse(const std::string& wanted) const {
  std::string found;
  if (value_->is_array())
    found = "a list of " + std::to_string(value_->size());
  else if (value_->is_object())
    found = "an object";
  else
    found = shown(value_->dump(-1, ' ', false, json::error_handler_t::replace));
  throw std::invalid_argument(where() + ": found " + found + ", wanted " + wanted);
}

void json_value::allow(const std::vector<std::string>& known) const {
  if (!value_->is_object()) refuse("an object");
  for (const auto& [key, value] : value_->items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw std::invalid_argument(where() + ": found the unknown key " + planner::quoted(key) + suggestion(key, known));
}

json_value json_value::member(const std::string& key, const json& value) const {
  const auto name = shown(key);
  return {value, source_, path_.empty() ? name : path_ + "." + name};
}

std::optional<json_value> json_value::find(const std::string& key) const {
  if (!value_->is_object()) refuse("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return member(key, *found);
}

json_value json_value::at(const std::string& key) const {
  if (auto found = find(key)) return *found;
  throw std::invalid_argument(where() + ": the key " + planner::quoted(key) + " is missing");
}

std::vector<std::pair<std::string, json_value>> json_value::members() const {
  if (!value_->is_object()) refuse("an object");
  std::vector<std::pair<std::string, json_value>> all;
  for (const auto& [key, value] : value_->items())
    all.emplace_back(key, member(key, value));
  return all;
}

std::vector<json_value> json_value::items() const {
  if (!value_->is_array()) refuse("a list");
  std::vector<json_value> all;
  for (std::size_t i = 0; i < value_->size(); ++i)
    all.emplace_back((*value_)[i], source_, path_ + "[" + std::to_string(i) + "]");
  return all;
}

std::string json_value::text() const {
  if (!value_->is_string()) refuse("a text");
  return value_->get<std::string>();
}

bool json_value::flag() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

double json_value::number(double least, double most) const {
  const auto wanted = "a number from " + number_text(least) + " to " + number_text(most);
  if (!value_->is_number()) refuse(wanted);
  const auto number = value_->get<double>();
  if (!(number >= least && number <= most)) refuse(wanted);
  return number;
}

std::int64_t json_value::whole(std::int64_t least, std::int64_t most) const {
  const auto wanted = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  if (!value_->is_number()) refuse(wanted);
  const auto number = value_->get<double>(); // exact where it matters: the limits are below 2^53
  if (!(number >= static_cast<double>(least) && number <= static_cast<double>(most)) || number != std::floor(number))
    refuse(wanted);
  return static_cast<std::int64_t>(number);
}

std::uint64_t json_value::natural(std::uint64_t least, std::uint64_t most) const {
  const auto wanted = least == most ? std::to_string(least)
                                    : "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  if (!value_->is_number_unsigned()) refuse(wanted);
  const auto number = value_->get<std::uint64_t>();
  if (number < least || number > most) refuse(wanted);
  return number;
}

namespace {

bool is_plain_list(const nlohmann::ordered_json& value) {
  return value.is_array() &&
         std::none_of(value.begin(), value.end(), [](const auto& item) { return item.is_structured(); });
}

void write(const nlohmann::ordered_json& value, const std::string& indent, std::string& text) {
  if (!value.is_structured() || value.empty()) {
    text += value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    return;
  }
  const bool on_one_line = is_plain_list(value);
  const auto deeper = indent + "  ";
  const auto* separator = "";
  text += value.is_object() ? "{" : "[";
  for (const auto& [key, item] : value.items()) {
    text += separator + (on_one_line ? "" : "\n" + deeper);
    if (value.is_object()) text += nlohmann::ordered_json(key).dump() + ": ";
    write(item, deeper, text);
    separator = on_one_line ? ", " : ",";
  }
  if (!on_one_line) text += "\n" + indent;
  text += value.is_object() ? "}" : "]";
}

} // namespace

std::string readable_json(const nlohmann::ordered_json& value) {
  std::string text;
  write(value, "", text);
  return text + "\n";
}

} // namespace penstock::planner
