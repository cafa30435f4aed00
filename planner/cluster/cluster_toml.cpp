// Clusters as TOML.
#include "planner/cluster/cluster.hpp"
#include "planner/profile/file_kind.hpp"
#include "planner/profile/wording.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <toml.hpp>

namespace penstock::planner {

namespace {

using toml_value = toml::basic_value<toml::discard_comments, std::map, std::vector>;

std::string described(const toml_value& value) {
  switch (value.type()) {
  case toml::value_t::boolean:
    return value.as_boolean() ? "true" : "false";
  case toml::value_t::integer:
    return std::to_string(value.as_integer());
  case toml::value_t::floating:
    return number_text(value.as_floating());
  case toml::value_t::string:
    return planner::quoted(value.as_string().str);
  case toml::value_t::array:
    return "an array";
  case toml::value_t::table:
    return "a table";
  default:
    return "a date or time";
  }
}

/// Reads a table's keys by name and remembers them, so that the rest can be refused.
class table_reader {
public:
  table_reader(const toml_value& value, std::string path, const std::string& source)
      : value_(value), path_(std::move(path)), source_(source) {
    if (!value.is_table()) refuse(value, path_ + " is " + described(value) + ", wanted a table");
  }

  const std::string& source() const { return source_; }
  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const toml_value* find(const std::string& key) {
    known_.push_back(key);
    const auto& table = value_.as_table();
    const auto found = table.find(key);
    return found == table.end() ? nullptr : &found->second;
  }

  const toml_value& at(const std::string& key) {
    const auto* found = find(key);
    if (found == nullptr) {
      for (const auto& [other, value] : value_.as_table())
        if (const auto near = suggestion(other, {key}); !near.empty())
          refuse(value, path_ + " has no '" + key + "', but " + planner::quoted(other) + near);
      refuse(value_, path_ + " has no '" + key + "'");
    }
    return *found;
  }

  double number(const std::string& key) { return as_number(at(key), key); }
  double number_or(const std::string& key, double otherwise) {
    const auto* found = find(key);
    return found != nullptr ? as_number(*found, key) : otherwise;
  }

  int integer(const std::string& key) { return as_integer(at(key), key); }
  int integer_or(const std::string& key, int otherwise) {
    const auto* found = find(key);
    return found != nullptr ? as_integer(*found, key) : otherwise;
  }

  bool flag(const std::string& key) {
    const auto* found = find(key);
    if (found == nullptr) return false;
    if (!found->is_boolean()) refuse(*found, path_of(key) + " is " + described(*found) + ", wanted true or false");
    return found->as_boolean();
  }

  std::string text(const std::string& key) { return as_text(at(key), key); }
  std::string text_or_empty(const std::string& key) {
    const auto* found = find(key);
    return found != nullptr ? as_text(*found, key) : "";
  }

  /// The tables of [[key]]; none where it is not there.
  std::vector<table_reader> tables(const std::string& key) {
    std::vector<table_reader> found;
    const auto* value = find(key);
    if (value == nullptr) return found;
    if (!value->is_array()) refuse(*value, key + " is " + described(*value) + ", wanted [[" + key + "]]");
    for (const auto& table : value->as_array())
      found.emplace_back(table, key + "[" + std::to_string(found.size()) + "]", source_);
    return found;
  }

  void refuse_other_keys() const {
    for (const auto& [key, value] : value_.as_table())
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        refuse(value, (path_.empty() ? "the cluster" : path_) + " has the unknown key " + planner::quoted(key) +
                          suggestion(key, known_));
  }

  [[noreturn]] void refuse(const std::string& what) const { refuse(value_, path_ + what); }

private:
  [[noreturn]] void refuse(const toml_value& where, const std::string& what) const {
    throw std::invalid_argument(source_ + ":" + std::to_string(where.location().line()) + ": " + what);
  }

  double as_number(const toml_value& value, const std::string& key) const {
    if (value.is_integer()) return static_cast<double>(value.as_integer());
    if (!value.is_floating()) refuse(value, path_of(key) + " is " + described(value) + ", wanted a number");
    return value.as_floating();
  }

  int as_integer(const toml_value& value, const std::string& key) const {
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    if (!value.is_integer()) refuse(value, path_of(key) + " is " + described(value) + ", wanted an integer");
    if (value.as_integer() < -most || value.as_integer() > most)
      refuse(value, path_of(key) + " is " + described(value) + ", wanted at most " + std::to_string(most));
    return static_cast<int>(value.as_integer());
  }

  std::string as_text(const toml_value& value, const std::string& key) const {
    if (!value.is_string()) refuse(value, path_of(key) + " is " + described(value) + ", wanted a text");
    return value.as_string().str;
  }

  const toml_value& value_;
  std::string path_;
  const std::string& source_;
  std::vector<std::string> known_;
};

/// Refuses what toml11 3.7 takes badly: it descends once for each bracket or dot, asserts that no escape is half a
/// surrogate pair, and reads out of bounds where a text is not UTF-8. What is wrong otherwise is left to it.
class text_check {
public:
  text_check(std::string_view text, const std::string& source) : text_(text), source_(source) {
    constexpr std::size_t longest = 256 * 1024;
    if (text.size() > longest)
      throw std::invalid_argument(source + ": the file has " + std::to_string(text.size()) + " bytes, wanted at most " +
                                  std::to_string(longest));
    if (text.find('\0') != std::string_view::npos || !is_utf8(text))
      throw std::invalid_argument(source + ": the file is no text, wanted UTF-8 without zero bytes");
    while (at_ < text_.size())
      read_one();
  }

private:
  void read_one() {
    constexpr int deepest = 16;
    constexpr std::size_t most_dots = 64;
    const auto c = text_[at_];
    if (c == '"' || c == '\'') return skip_string(c);
    if (c == '#') at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
    if (c == '\n') {
      ++line_;
      dots_ = 0;
    }
    if (c == '[' || c == '{') ++depth_;
    if ((c == ']' || c == '}') && depth_ > 0) --depth_;
    if (c == '.') ++dots_;
    if (depth_ > deepest) refuse("more than " + std::to_string(deepest) + " brackets are open");
    if (dots_ > most_dots) refuse("more than " + std::to_string(most_dots) + " dots on a line");
    ++at_;
  }

  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool is_multiline = text_.substr(at_).starts_with(three);
    at_ += is_multiline ? 3 : 1;
    while (at_ < text_.size()) {
      if (is_multiline ? text_.substr(at_).starts_with(three) : text_[at_] == quote) {
        at_ += is_multiline ? 3 : 1;
        return;
      }
      if (text_[at_] == '\n') {
        if (!is_multiline) return; // not closed: toml11 will say so
        ++line_;
      }
      if (text_[at_] == '\\' && quote == '"') check_escape();
      ++at_;
    }
  }

  void check_escape() {
    ++at_;
    if (at_ == text_.size() || (text_[at_] != 'u' && text_[at_] != 'U')) return;
    const auto digits = text_.substr(at_ + 1, text_[at_] == 'u' ? 4 : 8);
    std::uint32_t code = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if ((code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff)
      refuse("the escape '\\" + shown(text_.substr(at_, digits.size() + 1)) + "' is no character");
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw std::invalid_argument(source_ + ":" + std::to_string(line_) + ": " + what);
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t dots_ = 0; // on this line
  int depth_ = 0;
};

toml_value parse(std::string_view text, const std::string& source) {
  text_check(text, source);
  std::istringstream in{std::string(text)};
  try {
    return toml::parse<toml::discard_comments, std::map, std::vector>(in, source);
  } catch (const toml::exception& e) {
    // "[error] toml::parse_table: what is wrong", then a picture of the line.
    std::string_view what = e.what();
    what = what.substr(0, what.find('\n'));
    const auto colon = what.find(": ");
    what = colon == std::string_view::npos ? "invalid text" : what.substr(colon + 2);
    throw std::invalid_argument(source + ":" + std::to_string(e.location().line()) +
                                ": this is no TOML: " + shown(what));
  } catch (const std::exception& e) {
    throw std::invalid_argument(source + ": this is no TOML: " + shown(e.what()));
  }
}

device_type read_type(table_reader& in) {
  device_type type;
  type.name = in.text("type");
  type.count = in.integer("count");
  type.memory_bytes = in.number_or("memory_bytes", 0);
  type.threads = in.integer_or("threads", 0);
  const bool has_speed = in.find("speed") != nullptr;
  type.speed = in.number_or("speed", 1);
  type.profile_name = in.text_or_empty("profile");
  if (const auto* streaming = in.find("streaming"); streaming != nullptr) {
    table_reader s(*streaming, in.path_of("streaming"), in.source());
    type.streaming = {.multipliers = s.number("multipliers"),
                      .clock_hz = s.number("clock_hz"),
                      .efficiency = s.number_or("efficiency", 1),
                      .on_chip_bytes = s.number("on_chip_bytes"),
                      .memory_bytes_per_s = s.number("memory_bytes_per_s")};
    s.refuse_other_keys();
  }
  if (static_cast<int>(has_speed) + static_cast<int>(!type.profile_name.empty()) +
          static_cast<int>(type.streaming.has_value()) >
      1)
    in.refuse(" has two of speed, profile and streaming, wanted one: each says how fast it is");
  in.refuse_other_keys();
  return type;
}

link_level read_level(table_reader& in) {
  link_level level{.group = in.integer("group"),
                   .bandwidth_bytes_per_s = in.number("bandwidth_bytes_per_s"),
                   .latency_s = in.number_or("latency_s", 0),
                   .shared = in.flag("shared"),
                   .half_duplex = in.flag("half_duplex"),
                   .by_reference = in.flag("by_reference")};
  in.refuse_other_keys();
  return level;
}

std::string text_of(const std::string& text) {
  std::string out = "\"";
  for (const auto c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

} // namespace

cluster cluster_from_toml(std::string_view text, const std::string& source) {
  refuse_other_kind(text, source, file_kind::cluster, "a cluster's TOML with [[device]] tables");
  const auto root = parse(text, source);
  table_reader in(root, "", source);
  cluster c;
  c.name = in.text_or_empty("name");
  for (auto& device : in.tables("device"))
    c.devices.push_back(read_type(device));
  for (auto& link : in.tables("link"))
    c.levels.push_back(read_level(link));
  in.refuse_other_keys();
  try {
    check_cluster(c);
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(source + ": " + e.what());
  }
  return c;
}

std::string to_toml(const cluster& c) {
  check_cluster(c); // a name with control characters has no plain TOML
  std::string out;
  const auto line = [&](const std::string& key, const std::string& value) { out += key + " = " + value + "\n"; };
  if (!c.name.empty()) line("name", text_of(c.name));
  for (const auto& type : c.devices) {
    out += out.empty() ? "[[device]]\n" : "\n[[device]]\n";
    line("type", text_of(type.name));
    line("count", std::to_string(type.count));
    if (type.memory_bytes > 0) line("memory_bytes", number_text(type.memory_bytes));
    if (type.threads > 0) line("threads", std::to_string(type.threads));
    if (!type.profile_name.empty()) line("profile", text_of(type.profile_name));
    if (type.profile_name.empty() && !type.streaming) line("speed", number_text(type.speed));
    if (!type.streaming) continue;
    out += "[device.streaming]\n";
    line("multipliers", number_text(type.streaming->multipliers));
    line("clock_hz", number_text(type.streaming->clock_hz));
    line("efficiency", number_text(type.streaming->efficiency));
    line("on_chip_bytes", number_text(type.streaming->on_chip_bytes));
    line("memory_bytes_per_s", number_text(type.streaming->memory_bytes_per_s));
  }
  for (const auto& level : c.levels) {
    out += "\n[[link]]\n";
    line("group", std::to_string(level.group));
    line("bandwidth_bytes_per_s", number_text(level.bandwidth_bytes_per_s));
    line("latency_s", number_text(level.latency_s));
    if (level.shared) line("shared", "true");
    if (level.half_duplex) line("half_duplex", "true");
    if (level.by_reference) line("by_reference", "true");
  }
  return out;
}

} // namespace penstock::planner
