// Plans as JSON text: reading with every check of form, and writing.
#include "planner/plan/plan_members.hpp"
#include "planner/profile/file_kind.hpp"
#include "planner/profile/json_reader.hpp"
#include "planner/profile/wording.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

namespace penstock::planner {

namespace {

using nlohmann::ordered_json;

constexpr const char* format_name = "penstock-plan";
constexpr const char* prediction_mark = "prediction_of"; // see mark_of
constexpr std::size_t longest_list = 65536;
constexpr std::size_t longest_text = 4096;

class key_collector {
public:
  explicit key_collector(std::vector<std::string> also = {}) : keys(std::move(also)) {}
  template <typename Value>
  void operator()(const char* key, const Value&, presence, range = {}) {
    keys.emplace_back(key);
  }
  std::vector<std::string> keys;
};

void read(const json_value& json, double& value, range r) {
  value = json.number(r.least, r.most);
}
template <std::integral Whole>
void read(const json_value& json, Whole& value, range r) {
  value = static_cast<Whole>(json.whole(static_cast<std::int64_t>(r.least), static_cast<std::int64_t>(r.most)));
}
void read(const json_value& json, bool& value, range) {
  value = json.flag();
}
void read(const json_value& json, std::string& value, range) {
  value = json.text();
  if (value.size() > longest_text || !is_plain_text(value))
    json.refuse("one line of at most " + std::to_string(longest_text) + " characters");
}
void read(const json_value& json, std::map<std::string, std::string>& value, range r) {
  for (const auto& [key, member] : json.members())
    read(member, value[key], r);
}
template <typename Item>
void read(const json_value& json, std::vector<Item>& value, range r);
template <typename Item>
void read(const json_value& json, std::optional<Item>& value, range r);
template <typename Struct>
requires std::is_class_v<Struct>
void read(const json_value& json, Struct& value, range r);

/// Reads the members of an object, whose keys are known to be right.
class member_reader {
public:
  explicit member_reader(const json_value& json) : json_(json) {}
  template <typename Value>
  void operator()(const char* key, Value& value, presence p, range r = {}) {
    if (p == required)
      read(json_.at(key), value, r);
    else if (const auto found = json_.find(key))
      read(*found, value, r);
  }

private:
  const json_value& json_;
};

template <typename Item>
void read(const json_value& json, std::vector<Item>& value, range r) {
  const auto items = json.items();
  if (items.size() > longest_list) json.refuse("at most " + std::to_string(longest_list) + " entries");
  value.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i)
    read(items[i], value[i], r);
}

template <typename Item>
void read(const json_value& json, std::optional<Item>& value, range r) {
  read(json, value.emplace(), r);
}

template <typename Struct>
requires std::is_class_v<Struct>
void read(const json_value& json, Struct& value, range) {
  key_collector known;
  visit_members(known, value);
  json.allow(known.keys);
  member_reader reader(json);
  visit_members(reader, value);
}

// --- writing ---

template <typename Value>
ordered_json json_of(const Value& value) {
  return value;
}
template <typename Item>
ordered_json json_of(const std::vector<Item>& list);
template <typename Struct>
requires requires(key_collector& v, const Struct& s) {
  visit_members(v, s);
}
ordered_json json_of(const Struct& value);

class member_writer {
public:
  explicit member_writer(ordered_json& json) : json_(json) {}
  template <typename Value>
  void operator()(const char* key, const Value& value, presence p, range = {}) {
    if ((p == left_if_empty && is_empty(value)) || (p == left_if_one && is_one(value))) return;
    json_[key] = json_of(value);
  }
  template <typename Value>
  void operator()(const char* key, const std::optional<Value>& value, presence, range = {}) {
    if (value) json_[key] = json_of(*value);
  }

private:
  template <typename Value>
  static bool is_empty(const Value& value) {
    if constexpr (requires { value.empty(); })
      return value.empty();
    else if constexpr (std::is_arithmetic_v<Value>)
      return value == Value{};
    else
      return false;
  }
  template <typename Value>
  static bool is_one(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>)
      return value == Value{1};
    else
      return false;
  }
  ordered_json& json_;
};

template <typename Item>
ordered_json json_of(const std::vector<Item>& list) {
  auto json = ordered_json::array();
  for (const auto& item : list)
    json.push_back(json_of(item));
  return json;
}

template <typename Struct>
requires requires(key_collector& v, const Struct& s) {
  visit_members(v, s);
}
ordered_json json_of(const Struct& value) {
  auto json = ordered_json::object();
  member_writer writer(json);
  visit_members(writer, value);
  return json;
}

/// A mark of everything that shapes a prediction, so that one made for another plan is known: the plan's JSON without
/// what was computed.
std::string mark_of(plan p) {
  p.predicted.reset();
  p.runner_up.reset();
  p.considered.clear();
  p.reason.clear();
  p.inputs.clear();
  return fingerprint(json_of(p).dump());
}

void check_head(const json_value& json) {
  if (const auto format = json.find("format"); format && format->text() != format_name)
    format->refuse(std::string("\"") + format_name + "\"");
  if (const auto version = json.find("version"); version && version->whole(1, 1'000'000) > plan::version)
    version->refuse("at most " + std::to_string(plan::version) + ": the plan is from a later penstock");
}

void check_schedule_name(const json_value& json, const plan& p) {
  auto names = schedule_names();
  names.emplace_back("fbp-as");
  if (std::find(names.begin(), names.end(), p.schedule) == names.end())
    json.at("schedule").refuse("a schedule's name" + suggestion(p.schedule, names));
}

/// What reads well by itself but does not fit together; said with the key's path, which check_plan does not know.
void check_stages(const json_value& json, plan& p) {
  const auto stages = json.at("stages").items();
  if (stages.empty()) json.at("stages").refuse("at least one stage");
  if (stages.size() > most_stages) json.at("stages").refuse("at most " + number_text(most_stages) + " stages");
  if (stages.size() % static_cast<std::size_t>(p.chunks) != 0)
    json.at("chunks").refuse("a number that divides the " + std::to_string(stages.size()) + " stages");
  const auto positions = stages.size() / static_cast<std::size_t>(p.chunks);
  std::set<std::string> seen;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    auto& stage = p.stages[s];
    for (const char* end : {"first_layer", "last_layer"})
      if (stages[s].at(end).text().empty()) stages[s].at(end).refuse("a layer's name");
    const auto devices = stages[s].find("devices");
    if (!devices) {
      if (!p.stages[0].devices.empty())
        throw std::invalid_argument(stages[s].where() +
                                    ": the key 'devices' is missing, wanted on every stage or on none");
      continue;
    }
    if (!stages[s].find("replicas")) stage.replicas = std::max(1, static_cast<int>(stage.devices.size()));
    if (stage.devices.size() != static_cast<std::size_t>(stage.replicas))
      devices->refuse(std::to_string(stage.replicas) + ", one device for each replica");
    for (const auto& item : devices->items()) {
      if (item.text().empty()) item.refuse("a device's name");
      if (s < positions && !seen.insert(item.text()).second) item.refuse("a device that no other replica has");
    }
    if (p.stages[0].devices.empty())
      throw std::invalid_argument(stages[0].where() +
                                  ": the key 'devices' is missing, wanted on every stage or on none");
  }
}

void check_ranks(const json_value& json, const plan& p) {
  const auto stages = json.at("stages").items();
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto& stage = p.stages[s];
    if (stage.ranks.empty() != p.stages[0].ranks.empty())
      throw std::invalid_argument(stages[stage.ranks.empty() ? s : 0].where() +
                                  ": the key 'ranks' is missing, wanted on every stage or on none");
    if (stage.ranks.empty()) continue;
    const auto ranks = stages[s].at("ranks");
    if (stage.ranks.size() != static_cast<std::size_t>(stage.replicas))
      ranks.refuse(std::to_string(stage.replicas) + ", one rank for each replica");
    for (std::size_t r = 0; r < stage.ranks.size(); ++r)
      if (p.processes > 0 && stage.ranks[r] >= p.processes)
        ranks.items()[r].refuse("a rank below the plan's " + std::to_string(p.processes) + " processes");
  }
}

/// The number of the first active layer, where the file has the layers.
void find_frozen(const json_value& json, plan& p) {
  const auto name = json.find("frozen_until");
  if (name && p.first_active.empty()) name->refuse("the name of the first layer that is not frozen");
  if (p.ahead > 0 && !name) json.at("ahead").refuse("0, or frozen_until beside it: only frozen stages run ahead");
  if (!name || p.layer_order.empty()) return;
  if (std::find(p.layer_order.begin(), p.layer_order.end(), p.first_active) == p.layer_order.end())
    name->refuse("a layer of layer_order" + suggestion(p.first_active, p.layer_order));
  settle_frozen(p, p.layer_order);
}

void check_prediction(const json_value& json, const plan& p) {
  const auto refuse_count = [&p](const json_value& list) {
    list.refuse(std::to_string(p.stages.size()) + ", one for each stage");
  };
  if (p.predicted->stages.size() != p.stages.size()) refuse_count(json.at("stages"));
  if (!p.predicted->costs) return;
  const auto costs = json.at("costs").at("stages");
  const auto& stages = p.predicted->costs->stages;
  if (stages.size() != p.stages.size()) refuse_count(costs);
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (stages[s].devices.size() != static_cast<std::size_t>(p.stages[s].replicas))
      costs.items()[s].at("devices").refuse(std::to_string(p.stages[s].replicas) + ", one device for each replica");
}

} // namespace

plan plan_from_json(std::string_view text, const std::string& source) {
  refuse_other_kind(text, source, file_kind::plan, "a plan, as `penstock plan PROFILE -o FILE` writes it");
  const auto parsed = parse_json(text, source);
  const json_value json(parsed, source);
  check_head(json);
  plan p;
  key_collector known({"format", "version", prediction_mark});
  visit_members(known, p);
  json.allow(known.keys);
  member_reader reader(json);
  visit_members(reader, p);
  check_schedule_name(json, p);
  check_stages(json, p);
  check_ranks(json, p);
  find_frozen(json, p);
  if (p.predicted) {
    const auto mark = json.find(prediction_mark);
    if (mark && mark->text() == mark_of(p))
      check_prediction(json.at("prediction"), p);
    else
      p.predicted.reset();
  }
  p.model_options = options_as_said_now(std::move(p.model_options)); // the mark is of what the file says
  return p;
}

std::string to_json(const plan& p) {
  ordered_json json = {{"format", format_name}, {"version", plan::version}};
  json.update(json_of(p));
  if (p.predicted) json[prediction_mark] = mark_of(p);
  return readable_json(json);
}

} // namespace penstock::planner
