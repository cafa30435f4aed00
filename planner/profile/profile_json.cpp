// Profiles as JSON: one layer a line, so that a person can read them and a diff shows what changed.
#include "planner/profile/file_kind.hpp"
#include "planner/profile/json_reader.hpp"
#include "planner/profile/profile.hpp"
#include "planner/profile/wording.hpp"

#include <limits>
#include <stdexcept>
#include <unordered_map>

namespace penstock::planner {

namespace {

using nlohmann::json;

constexpr std::string_view format_name = "penstock-profile";
constexpr int format_version = 1;
constexpr std::string_view input_name = "input"; // of the model's input, among the inputs of a layer
// Ranges that mean something are check_profile's; here an integer must only be one.
constexpr std::int64_t most_integer = 1'000'000'000'000'000;

[[noreturn]] void refuse(const json_value& at, const std::string& what) {
  throw std::invalid_argument(at.where() + ": " + what);
}

double number_or_zero(const json_value& in, const std::string& key) {
  const auto value = in.find(key);
  return value ? value->number() : 0;
}

std::string text_or_empty(const json_value& in, const std::string& key) {
  const auto value = in.find(key);
  return value ? value->text() : "";
}

using layer_index = std::unordered_map<std::string, int>;

std::vector<std::string> names_of(const layer_index& index) {
  std::vector<std::string> names;
  for (const auto& [name, layer] : index)
    names.push_back(name);
  return names;
}

profile_layer read_layer(const json_value& in, const layer_index& above) {
  in.allow({"name", "kind", "inputs", "weight_bytes", "carried_bytes", "forward_flops", "fused_with_previous"});
  profile_layer l;
  l.name = in.at("name").text();
  l.kind = text_or_empty(in, "kind");
  for (const auto& input : in.at("inputs").items()) {
    const auto found = above.find(input.text());
    if (found == above.end())
      refuse(input, "found " + planner::quoted(input.text()) + ", wanted 'input' or a layer above" +
                        suggestion(input.text(), names_of(above)));
    l.inputs.push_back(found->second);
  }
  l.weight_bytes = in.at("weight_bytes").number();
  l.carried_bytes = number_or_zero(in, "carried_bytes");
  l.forward_flops = number_or_zero(in, "forward_flops");
  const auto fused = in.find("fused_with_previous");
  l.fused_with_previous = fused && fused->flag();
  return l;
}

layer_index read_layers(const json_value& layers, profile& p) {
  layer_index index{{std::string(input_name), -1}};
  for (const auto& in : layers.items()) {
    p.layers.push_back(read_layer(in, index));
    const auto& name = p.layers.back().name;
    if (!index.emplace(name, static_cast<int>(p.layers.size()) - 1).second)
      refuse(in.at("name"), "found " + planner::quoted(name) + ", which is the name of " +
                                (name == input_name ? "the model's input" : "an earlier layer"));
  }
  return index;
}

measurement read_measurement(const json_value& in, const profile& p, const layer_index& index) {
  in.allow({"samples", "threads", "spread", "layers"});
  measurement m;
  m.samples = in.at("samples").whole(1, most_integer);
  m.threads = static_cast<int>(in.at("threads").whole(1, std::numeric_limits<int>::max()));
  m.spread = number_or_zero(in, "spread");
  m.layers.resize(p.layers.size());
  m.update_seconds.resize(p.layers.size());
  const auto layers = in.at("layers");
  std::vector<bool> is_read(p.layers.size()), tells_delayed(p.layers.size());
  std::size_t updates = 0;
  for (const auto& [name, cost] : layers.members()) {
    const auto found = index.find(name);
    if (found == index.end() || found->second < 0)
      refuse(layers, "found " + planner::quoted(name) + ", which is no layer" + suggestion(name, names_of(index)));
    const auto i = static_cast<std::size_t>(found->second);
    is_read[i] = true;
    cost.allow({"forward_seconds", "backward_seconds", "accumulate_seconds", "output_bytes", "kept_output_bytes",
                "kept_bytes", "workspace_bytes", "backward_workspace_bytes", "weight_seconds", "delayed_bytes",
                "update_seconds"});
    m.layers[i] = {.forward_seconds = cost.at("forward_seconds").number(),
                   .backward_seconds = cost.at("backward_seconds").number(),
                   .accumulate_seconds = number_or_zero(cost, "accumulate_seconds"),
                   .output_bytes = cost.at("output_bytes").number(),
                   .kept_output_bytes = number_or_zero(cost, "kept_output_bytes"),
                   .kept_bytes = cost.at("kept_bytes").number(),
                   .workspace_bytes = number_or_zero(cost, "workspace_bytes"),
                   .backward_workspace_bytes = number_or_zero(cost, "backward_workspace_bytes")};
    const auto weight_seconds = cost.find("weight_seconds");
    m.layers[i].weight_seconds =
        weight_seconds ? weight_seconds->number() : usual_weight_seconds(p.layers[i], m.layers[i]);
    const auto delayed_bytes = cost.find("delayed_bytes");
    if (delayed_bytes) m.layers[i].delayed_bytes = delayed_bytes->number();
    tells_delayed[i] = delayed_bytes.has_value();
    m.update_seconds[i] = number_or_zero(cost, "update_seconds");
    if (cost.find("update_seconds")) ++updates;
  }
  for (std::size_t i = 0; i < is_read.size(); ++i)
    if (!is_read[i]) layers.at(p.layers[i].name); // says that it is missing
  for (std::size_t i = 0; i < p.layers.size(); ++i)
    if (!tells_delayed[i]) m.layers[i].delayed_bytes = usual_delayed_bytes(p, m, i);
  if (updates == 0)
    m.update_seconds.clear();
  else if (updates < p.layers.size())
    refuse(in, "found update_seconds for " + std::to_string(updates) + " layers, wanted all " +
                   std::to_string(p.layers.size()) + " or none");
  return m;
}

std::vector<int> read_group(const json_value& group, const layer_index& index) {
  std::vector<int> layers;
  for (const auto& name : group.items()) {
    const auto found = index.find(name.text());
    if (found == index.end() || found->second < 0)
      refuse(name,
             "found " + planner::quoted(name.text()) + ", wanted a layer" + suggestion(name.text(), names_of(index)));
    layers.push_back(found->second);
  }
  return layers;
}

std::vector<std::vector<int>> groups_or_none(const json_value& in, const std::string& key, const layer_index& index) {
  std::vector<std::vector<int>> groups;
  if (const auto found = in.find(key))
    for (const auto& group : found->items())
      groups.push_back(read_group(group, index));
  return groups;
}

/// With the comma before it; nothing where there are none.
std::string group_lines(const profile& p, const char* key, const std::vector<std::vector<int>>& groups) {
  std::string text;
  for (const auto& group : groups) {
    text += text.empty() ? std::string(",\n  \"") + key + "\": [[" : ", [";
    for (std::size_t i = 0; i < group.size(); ++i)
      text += (i > 0 ? ", " : "") + json(p.layers[static_cast<std::size_t>(group[i])].name).dump();
    text += "]";
  }
  return text.empty() ? text : text + "]";
}

profile read(const json_value& in) {
  in.allow({"format", "version", "model", "model_options", "input_bytes_per_sample", "least_samples", "machine",
            "doubts", "layers", "tied", "kept_together", "measurements"});
  if (in.at("format").text() != format_name) in.at("format").refuse("'" + std::string(format_name) + "'");
  in.at("version").whole(format_version, format_version);
  profile p;
  p.model = in.at("model").text();
  p.model_options = options_as_said_now(text_or_empty(in, "model_options"));
  p.input_bytes_per_sample = in.at("input_bytes_per_sample").whole(0, most_integer);
  if (const auto least = in.find("least_samples")) p.least_samples = least->whole(1, most_integer);
  if (const auto machine = in.find("machine"))
    for (const auto& [key, value] : machine->members())
      p.machine[key] = value.text();
  if (const auto doubts = in.find("doubts"))
    for (const auto& text : doubts->items())
      p.doubts.push_back(text.text());
  const auto index = read_layers(in.at("layers"), p);
  p.tied = groups_or_none(in, "tied", index);
  p.kept_together = groups_or_none(in, "kept_together", index);
  for (const auto& m : in.at("measurements").items())
    p.measurements.push_back(read_measurement(m, p, index));
  return p;
}

std::string text_of(const std::string& text) {
  return json(text).dump();
}

std::string layer_line(const profile& p, const profile_layer& l) {
  auto line = "{\"name\": " + text_of(l.name) + ", \"kind\": " + text_of(l.kind) + ", \"inputs\": [";
  for (std::size_t i = 0; i < l.inputs.size(); ++i)
    line += (i > 0 ? ", " : "") +
            text_of(l.inputs[i] < 0 ? std::string(input_name) : p.layers[static_cast<std::size_t>(l.inputs[i])].name);
  line += "], \"weight_bytes\": " + number_text(l.weight_bytes);
  if (l.carried_bytes > 0) line += ", \"carried_bytes\": " + number_text(l.carried_bytes);
  if (l.forward_flops > 0) line += ", \"forward_flops\": " + number_text(l.forward_flops);
  if (l.fused_with_previous) line += ", \"fused_with_previous\": true";
  return line + "}";
}

std::string cost_line(const std::string& name, const layer_cost& c) {
  return text_of(name) + ": {\"forward_seconds\": " + number_text(c.forward_seconds) +
         ", \"backward_seconds\": " + number_text(c.backward_seconds) +
         ", \"accumulate_seconds\": " + number_text(c.accumulate_seconds) +
         ", \"output_bytes\": " + number_text(c.output_bytes) +
         ", \"kept_output_bytes\": " + number_text(c.kept_output_bytes) +
         ", \"kept_bytes\": " + number_text(c.kept_bytes) + ", \"workspace_bytes\": " + number_text(c.workspace_bytes) +
         ", \"backward_workspace_bytes\": " + number_text(c.backward_workspace_bytes) +
         ", \"weight_seconds\": " + number_text(c.weight_seconds) +
         ", \"delayed_bytes\": " + number_text(c.delayed_bytes);
}

} // namespace

profile profile_from_json(std::string_view text, const std::string& source) {
  refuse_other_kind(text, source, file_kind::profile, wanted_profile);
  const auto root = parse_json(text, source);
  auto p = read({root, source});
  try {
    check_profile(p);
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(source + ": " + e.what());
  }
  return p;
}

std::string to_json(const profile& p) {
  check_profile(p); // a number that is not finite has no JSON
  std::string out =
      "{\n  \"format\": \"" + std::string(format_name) + "\",\n  \"version\": " + std::to_string(format_version) +
      ",\n  \"model\": " + text_of(p.model) + ",\n  \"model_options\": " + text_of(p.model_options) +
      ",\n  \"input_bytes_per_sample\": " + std::to_string(p.input_bytes_per_sample) +
      (p.least_samples > 1 ? ",\n  \"least_samples\": " + std::to_string(p.least_samples) : "") + ",\n  \"machine\": {";
  const char* between = "\n    ";
  for (const auto& [key, value] : p.machine) {
    out += between + text_of(key) + ": " + text_of(value);
    between = ",\n    ";
  }
  out += p.machine.empty() ? "}," : "\n  },";
  if (!p.doubts.empty()) {
    between = "\n  \"doubts\": [\n    ";
    for (const auto& text : p.doubts) {
      out += between + text_of(text);
      between = ",\n    ";
    }
    out += "\n  ],";
  }
  out += "\n  \"layers\": [";
  for (std::size_t i = 0; i < p.layers.size(); ++i)
    out += (i > 0 ? ",\n    " : "\n    ") + layer_line(p, p.layers[i]);
  out += "\n  ]";
  out += group_lines(p, "tied", p.tied) + group_lines(p, "kept_together", p.kept_together);
  out += ",\n  \"measurements\": [";
  for (std::size_t k = 0; k < p.measurements.size(); ++k) {
    const auto& m = p.measurements[k];
    out += std::string(k > 0 ? ",\n    " : "\n    ") + "{\"samples\": " + std::to_string(m.samples) +
           ", \"threads\": " + std::to_string(m.threads) +
           (m.spread > 0 ? ", \"spread\": " + number_text(m.spread) : "") + ", \"layers\": {";
    for (std::size_t i = 0; i < p.layers.size(); ++i) {
      out += (i > 0 ? ",\n      " : "\n      ") + cost_line(p.layers[i].name, m.layers[i]);
      if (!m.update_seconds.empty()) out += ", \"update_seconds\": " + number_text(m.update_seconds[i]);
      out += "}";
    }
    out += "\n    }}";
  }
  return out + "\n  ]\n}\n";
}

} // namespace penstock::planner
