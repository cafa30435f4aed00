// Renames tensor by tensor, then sees to the tables.
#include "apps/models/gnmt_weights.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::apps {

namespace {

const std::string encoder_table = "encoder.embedder.weight";
const std::string decoder_table = "decoder.embedder.weight";

// "encoder.rnn_layers.0.layer2.weight_ih_l0" is the reverse direction of "encoder.rnn_layers.0".
std::string own_name(std::string name) {
  const std::string wrapper = "module.", first = "encoder.rnn_layers.0.";
  if (name.starts_with(wrapper)) name = name.substr(wrapper.size());
  if (!name.starts_with(first)) return name;
  for (const auto& [alias, direction] : {std::pair("bidir.", ""), std::pair("layer1.", ""), {"layer2.", "_reverse"}})
    if (name.compare(first.size(), std::strlen(alias), alias) == 0)
      return first + name.substr(first.size() + std::strlen(alias)) + direction;
  return name;
}

bool same(const tensor& a, const tensor& b) {
  return a.type() == b.type() && a.dims() == b.dims() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

class adapter {
public:
  explicit adapter(safetensors_contents& file) : file_(file) {}

  void rename() {
    auto before = std::move(file_.tensors);
    const auto converted = std::move(file_.converted);
    file_.tensors.clear();
    file_.converted.clear();
    for (const auto& [name, value] : before) {
      const auto it = converted.find(name);
      put(own_name(name), value, it == converted.end() ? "" : it->second);
    }
  }

  /// A model with two tables takes one for both.
  void double_table() {
    const bool encodes = file_.tensors.contains(encoder_table), decodes = file_.tensors.contains(decoder_table);
    if (encodes && !decodes) copy(encoder_table, decoder_table);
    if (!encodes && decodes) copy(decoder_table, encoder_table);
  }

private:
  void put(const std::string& name, const tensor& value, const std::string& type) {
    const auto [it, is_new] = file_.tensors.emplace(name, value);
    if (!is_new && !same(it->second, value))
      throw usage_error("[weights] two tensors are " + name + " and hold different numbers");
    if (!type.empty()) file_.converted.emplace(name, type);
  }
  void copy(const std::string& from, const std::string& to) {
    const auto it = file_.converted.find(from);
    put(to, file_.tensors.at(from), it == file_.converted.end() ? "" : it->second);
  }

  safetensors_contents& file_;
};

} // namespace

adapted_weights adapt_gnmt_weights(const model& net, safetensors_contents& file) {
  adapter of(file);
  of.rename();
  if (net.ties().empty()) of.double_table();
  return {};
}

} // namespace penstock::apps
