// Names of one tensor become one.
#include "kernels/weights_adapter.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <cstring>

namespace penstock {

namespace {

bool is_equal(const tensor& a, const tensor& b) {
  return a.type() == b.type() && a.dims() == b.dims() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

} // namespace

void take_aliases(const model& net, safetensors_contents& file) {
  for (const auto& [alias, name] : net.aliases()) {
    auto node = file.tensors.extract(alias);
    if (node.empty()) continue;
    auto converted = file.converted.extract(alias);
    if (const auto own = file.tensors.find(name); own != file.tensors.end()) {
      if (is_equal(node.mapped(), own->second)) continue;
      const bool is_tied =
          std::any_of(net.ties().begin(), net.ties().end(), [&n = name](const auto& tie) { return tie.name == n; });
      throw usage_error("[weights] " + alias + " and " + name + " differ, and are one tensor of " + net.name() +
                        ": wanted equal values" + (is_tied ? ", or the model untied" : ""));
    }
    node.key() = name;
    file.tensors.insert(std::move(node));
    if (converted.empty()) continue;
    converted.key() = name;
    file.converted.insert(std::move(converted));
  }
}

} // namespace penstock
