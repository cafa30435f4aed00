// A manifest as JSON: written plainly, read with every member's type and range, and its own digest.
#include "actors/checkpoint/checkpoint_manifest.hpp"

#include "actors/checkpoint/digest.hpp"
#include "kernels/check.hpp"
#include "planner/profile/json_reader.hpp"
#include "planner/profile/wording.hpp"
#include "planner/schedule.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

namespace penstock::actors {

namespace {

using nlohmann::json;
using planner::json_value;

constexpr std::uint64_t format_version = 2; // 1 had neither options nor a digest
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_replicas = 1024; // as a run refuses more

std::string stage_file_name(std::size_t stage) {
  return "stage-" + std::to_string(stage) + ".safetensors";
}

json to_json(const manifest_stage& s) {
  json all{
      {"file", s.file},     {"bytes", s.bytes},       {"sha256", s.sha256},   {"first_layer", s.first_layer},
      {"layers", s.layers}, {"replicas", s.replicas}, {"version", s.version}, {"optimizer_steps", s.optimizer_steps}};
  if (s.frozen_layers > 0) all["frozen_layers"] = s.frozen_layers;
  return all;
}

json to_json(const checkpoint_manifest& m) {
  json stages = json::array();
  for (const auto& s : m.stages)
    stages.push_back(to_json(s));
  json all{{"format", format_version},
           {"model", m.at.model},
           {"optimizer", m.at.optimizer},
           {"schedule", m.at.schedule},
           {"step", m.at.step},
           {"batch", m.at.batch},
           {"samples", m.at.samples},
           {"seed", m.at.seed},
           {"drains", m.at.drains},
           {"options", m.at.options},
           {"learning_rate", m.at.learning_rate},
           {"last_batch", m.at.drops_last_batch ? "drop" : "keep"},
           {"stages", std::move(stages)}};
  if (m.at.has_frozen) all["has_frozen"] = true;
  const auto& seen = m.at.evaluations;
  if (seen.losses.empty()) return all;
  all["evaluations"] = {{"losses", seen.losses}, {"last_at", seen.last_at}};
  if (seen.switched_at >= 0) all["evaluations"]["switched_at"] = seen.switched_at;
  return all;
}

std::int64_t count(const json_value& v, std::int64_t least = 0, std::int64_t greatest = most) {
  return static_cast<std::int64_t>(v.natural(static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(greatest)));
}

std::string words(const json_value& v) {
  auto text = v.text();
  if (text.empty()) v.refuse("a text that is not empty");
  return text;
}

std::string digest(const json_value& v) {
  auto text = v.text();
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() != 64 || !std::all_of(text.begin(), text.end(), is_hex))
    v.refuse("a SHA-256 in 64 hexadecimal digits");
  return text;
}

std::vector<std::int64_t> drains_of(const json_value& v, std::int64_t step) {
  std::vector<std::int64_t> drains;
  for (const auto& item : v.items())
    drains.push_back(count(item, drains.empty() ? 0 : drains.back(), step)); // one after the other
  if ((drains.empty() ? 0 : drains.back()) != step)
    v.refuse("the drains of the run, up to step " + std::to_string(step));
  return drains;
}

std::string schedule_of(const json_value& v) {
  const auto names = planner::schedule_names();
  auto name = v.text();
  if (std::find(names.begin(), names.end(), name) == names.end()) v.refuse("a schedule's name");
  return name;
}

training_record options_of(const json_value& v) {
  training_record options;
  for (const auto& [name, value] : v.members())
    options[name] = value.text();
  return options;
}

asgd_trigger::history evaluations_of(const json_value& v, std::int64_t step) {
  v.allow({"losses", "last_at", "switched_at"});
  constexpr double largest = std::numeric_limits<double>::max();
  asgd_trigger::history seen;
  for (const auto& loss : v.at("losses").items())
    seen.losses.push_back(loss.number(-largest, largest));
  if (seen.losses.empty()) v.at("losses").refuse("at least one loss");
  seen.last_at = count(v.at("last_at"), 0, step);
  if (const auto at = v.find("switched_at")) seen.switched_at = count(*at, 0, seen.last_at);
  return seen;
}

manifest_stage stage_of(const json_value& v, std::size_t stage, const checkpoint_position& at) {
  v.allow(
      {"file", "bytes", "sha256", "first_layer", "layers", "replicas", "frozen_layers", "version", "optimizer_steps"});
  manifest_stage s;
  s.file = v.at("file").text();
  if (s.file != stage_file_name(stage)) v.at("file").refuse(stage_file_name(stage));
  s.bytes = static_cast<std::uint64_t>(count(v.at("bytes")));
  s.sha256 = digest(v.at("sha256"));
  s.first_layer = words(v.at("first_layer"));
  s.layers = count(v.at("layers"), 1, 1'000'000'000);
  s.replicas = static_cast<std::size_t>(count(v.at("replicas"), 1, most_replicas));
  // A minibatch makes one update at most, and at least one with those of all other replicas.
  // What is frozen has none, and what was begins anew.
  const auto least = at.has_frozen ? 0 : at.step / most_replicas + (at.step % most_replicas != 0 ? 1 : 0);
  for (const auto& [parameter, updates] : v.at("optimizer_steps").members())
    s.optimizer_steps[parameter] = count(updates, at.optimizer == "asgd" ? 0 : least, at.step); // asgd's begin later
  s.version = count(v.at("version"), 0, at.step); // counted anew under each plan
  if (const auto frozen = v.find("frozen_layers")) {
    if (!at.has_frozen) frozen->refuse("none in a run that has frozen no layer");
    s.frozen_layers = count(*frozen, 1, s.layers);
  }
  return s;
}

checkpoint_manifest read(const std::string& text, const std::string& source, std::int64_t step) {
  auto all = planner::parse_json(text, source);
  const json_value v(all, source);
  if (!all.is_object()) v.refuse("an object");
  v.at("format").natural(format_version, format_version);
  v.allow({"format", "model", "optimizer", "schedule", "step", "batch", "samples", "seed", "drains", "options",
           "learning_rate", "last_batch", "has_frozen", "evaluations", "stages", "sha256"});
  checkpoint_manifest m;
  m.at.model = planner::options_as_said_now(words(v.at("model")));
  m.at.optimizer = words(v.at("optimizer"));
  m.at.schedule = schedule_of(v.at("schedule"));
  m.at.step = count(v.at("step"), step, step);
  m.at.batch = count(v.at("batch"), 1);
  m.at.samples = count(v.at("samples"), 1);
  m.at.seed = v.at("seed").natural(0, std::numeric_limits<std::uint64_t>::max());
  m.at.drains = drains_of(v.at("drains"), step);
  m.at.options = options_of(v.at("options"));
  m.at.learning_rate = v.at("learning_rate").number(0, std::numeric_limits<float>::max());
  const auto last = v.at("last_batch").text();
  if (last != "keep" && last != "drop") v.at("last_batch").refuse("keep or drop");
  m.at.drops_last_batch = last == "drop";
  if (const auto frozen = v.find("has_frozen")) m.at.has_frozen = frozen->flag();
  if (const auto seen = v.find("evaluations")) m.at.evaluations = evaluations_of(*seen, step);
  for (const auto& entry : v.at("stages").items())
    m.stages.push_back(stage_of(entry, m.stages.size(), m.at));
  if (m.stages.empty()) v.at("stages").refuse("at least one stage");
  m.sha256 = digest(v.at("sha256"));
  all.erase("sha256");
  if (sha256_of_text(all.dump()) != m.sha256)
    throw std::invalid_argument(source +
                                ": its SHA-256 differs from the one it holds: it was changed after it was written");
  return m;
}

} // namespace

std::string to_text(checkpoint_manifest& manifest) {
  auto all = to_json(manifest);
  manifest.sha256 = sha256_of_text(all.dump());
  all["sha256"] = manifest.sha256;
  return all.dump(1) + "\n";
}

checkpoint_manifest manifest_from_text(const std::string& text, const std::string& source, std::int64_t step) {
  try {
    return read(text, source, step);
  } catch (const std::invalid_argument& e) {
    throw error(std::string("[checkpoint] ") + e.what());
  } catch (const json::exception& e) { // what the parser takes and cannot write again
    throw error("[checkpoint] " + source + ": " + e.what());
  }
}

std::string checkpoint_folder_name(std::int64_t step) {
  const auto digits = std::to_string(step);
  return "step-" + std::string(digits.size() < 10 ? 10 - digits.size() : 0, '0') + digits;
}

std::optional<std::int64_t> step_of_folder(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return std::nullopt;
  std::int64_t step = 0;
  const auto* end = name.data() + name.size();
  const auto [rest, fault] = std::from_chars(name.data() + prefix.size(), end, step);
  if (fault != std::errc{} || rest != end || step < 0 || checkpoint_folder_name(step) != name) return std::nullopt;
  return step;
}

} // namespace penstock::actors
