// Reads JSON that a person may have edited: strict, and every complaint says where.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::planner {

/// A value within a JSON text and the way to it, "plan.json: stages[1].replicas". Refers to the parsed text, which must
/// outlive it. Whatever finds something else than it wants throws std::invalid_argument, one line: the way, "found
/// ...", "wanted ...".
class json_value {
public:
  json_value(const nlohmann::json& value, std::string source, std::string path = "")
      : value_(&value), source_(std::move(source)), path_(std::move(path)) {}

  std::string where() const { return path_.empty() ? source_ : source_ + ": " + path_; }
  [[noreturn]] void refuse(const std::string& wanted) const;

  /// Of an object. Every key must be one of `known`, else it is refused and the nearest named.
  void allow(const std::vector<std::string>& known) const;
  std::optional<json_value> find(const std::string& key) const;
  json_value at(const std::string& key) const; ///< refuses the object where it is missing
  std::vector<std::pair<std::string, json_value>> members() const;

  std::vector<json_value> items() const; ///< of a list
  bool is_list() const { return value_->is_array(); }
  bool is_null() const { return value_->is_null(); }

  std::string text() const;
  bool flag() const;
  double number(double least = 0, double most = 1e18) const;
  std::int64_t whole(std::int64_t least, std::int64_t most) const;      ///< 8 and 8.0 alike
  std::uint64_t natural(std::uint64_t least, std::uint64_t most) const; ///< written as one, exact: not 8.0

private:
  json_value member(const std::string& key, const nlohmann::json& value) const;

  const nlohmann::json* value_;
  std::string source_;
  std::string path_;
};

/// Parses a whole text. Throws std::invalid_argument, one line that begins with `source`: not JSON, a key twice in one
/// object, nested deeper than any file of ours (32).
nlohmann::json parse_json(std::string_view text, const std::string& source);

/// A JSON text for people: objects one member a line, lists of plain values on one line, two spaces a level.
std::string readable_json(const nlohmann::ordered_json& value);

} // namespace penstock::planner
