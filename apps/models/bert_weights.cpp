// Renames tensor by tensor, then looks at what the model's head wants.
#include "apps/models/bert_weights.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <array>

namespace penstock::apps {

namespace {

constexpr std::array<std::string_view, 4> head_prefixes{"bert.pooler.", "cls.", "classifier.", "qa_outputs."};
const std::string word_table = "bert.embeddings.word_embeddings.weight";
const std::string decoder = "cls.predictions.decoder.weight"; // a parameter where it is not tied

bool is_of_a_head(const std::string& name) {
  return std::any_of(head_prefixes.begin(), head_prefixes.end(), [&](auto p) { return name.starts_with(p); });
}

void replace_end(std::string& name, std::string_view end, std::string_view by) {
  if (name.ends_with(end)) name.replace(name.size() - end.size(), end.size(), by);
}

std::string own_name(std::string name) {
  for (const char* part : {"embeddings.", "encoder.", "pooler."})
    if (name.starts_with(part)) name = "bert." + name;
  replace_end(name, "LayerNorm.gamma", "LayerNorm.weight");
  replace_end(name, "LayerNorm.beta", "LayerNorm.bias");
  return name;
}

bool is_no_weight(const std::string& name) {
  return name == "bert.embeddings.position_ids" || name == "bert.embeddings.token_type_ids";
}

void rename(safetensors_contents& file) {
  named_tensors renamed;
  std::map<std::string, std::string> converted;
  for (auto& [name, value] : file.tensors) {
    const auto own = own_name(name);
    if (is_no_weight(own)) continue;
    if (!renamed.emplace(own, value).second)
      throw usage_error("[weights] two tensors are " + own + ": it is there under another spelling too");
    if (const auto it = file.converted.find(name); it != file.converted.end()) converted[own] = it->second;
  }
  file.tensors = std::move(renamed);
  file.converted = std::move(converted);
}

std::string part_of_note(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  constexpr std::size_t shown = 4;
  const auto few = std::span(names).first(std::min(shown, names.size()));
  return std::string(what) + " (" + std::to_string(names.size()) + "): " + join(few, ", ") +
         (names.size() > shown ? ", ..." : "");
}

} // namespace

adapted_weights adapt_bert_weights(const model& net, safetensors_contents& file) {
  rename(file);
  take_aliases(net, file);
  std::set<std::string> wanted;
  for (int layer = 0; layer < static_cast<int>(net.layers().size()); ++layer)
    for (const auto& p : net.parameters(layer))
      wanted.insert(p.name);
  if (wanted.contains(decoder) && !file.tensors.contains(decoder) && file.tensors.contains(word_table)) {
    file.tensors.emplace(decoder, file.tensors.at(word_table));
    if (const auto it = file.converted.find(word_table); it != file.converted.end())
      file.converted.emplace(decoder, it->second);
  }
  adapted_weights result;
  std::vector<std::string> unused;
  for (const auto& name : wanted)
    if (is_of_a_head(name) && !file.tensors.contains(name)) result.drawn.insert(name);
  for (auto it = file.tensors.begin(); it != file.tensors.end();) {
    if (wanted.contains(it->first) || !is_of_a_head(it->first)) {
      ++it;
      continue;
    }
    unused.push_back(it->first);
    it = file.tensors.erase(it);
  }
  const std::vector<std::string> drawn(result.drawn.begin(), result.drawn.end());
  result.note = part_of_note("drawn anew", drawn);
  if (!drawn.empty() && !unused.empty()) result.note += "; ";
  result.note += part_of_note("of another head, not used", unused);
  return result;
}

} // namespace penstock::apps
