// Ties and losses decide how deep a freeze can be.
#include "actors/policy/freezing.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <vector>

namespace penstock::actors {

namespace {

const std::string& name_of(const model& net, int layer) {
  return net.layers()[static_cast<std::size_t>(layer)].name;
}

// The last layer that has parameters and whose outputs a loss depends on; -1: none.
int last_trained(const model& net) {
  const auto& values = net.values();
  std::vector<bool> decides(values.size(), false); // a loss, by value
  for (std::size_t v = 0; v < values.size(); ++v)
    decides[v] = !values[v].losses.empty();
  for (int l = static_cast<int>(net.layers().size()) - 1; l >= 0; --l) {
    const auto& layer = net.layers()[static_cast<std::size_t>(l)];
    const auto is_read = [&](value_id id) { return decides[static_cast<std::size_t>(id)]; };
    if (!std::any_of(layer.outputs.begin(), layer.outputs.end(), is_read)) continue;
    if (!net.parameters(l).empty()) return l;
    for (const auto id : layer.inputs)
      decides[static_cast<std::size_t>(id)] = true;
  }
  return -1;
}

std::string grouped(std::int64_t count) {
  auto text = std::to_string(count);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

} // namespace

freeze_depth deepest_freeze(const model& net, int wanted) {
  freeze_depth found{std::clamp(wanted, 0, static_cast<int>(net.layers().size())), ""};
  if (const int last = std::max(0, last_trained(net)); found.layer > last) {
    found.layer = last;
    found.reason = "nothing would be left to train behind " + name_of(net, last) + ", the last layer with parameters";
  }
  while (const auto* tie = net.tie_across(found.layer)) { // one may push the depth into another
    found.layer = tie->uses.front().layer;
    found.reason = tie->name + " of " + name_of(net, found.layer) + " is trained by " +
                   name_of(net, tie->uses.back().layer) + ", too";
  }
  return found;
}

void require_freeze(const model& net, int frozen_until) {
  const int layers = static_cast<int>(net.layers().size());
  if (frozen_until < 0 || frozen_until >= layers)
    throw usage_error("frozen until layer " + std::to_string(frozen_until) + " of " + net.name() +
                      ", wanted one of its " + std::to_string(layers) + " layers");
  const auto possible = deepest_freeze(net, frozen_until);
  if (possible.layer == frozen_until) return;
  throw usage_error("what is before " + name_of(net, frozen_until) + " cannot be frozen: " + possible.reason + "; " +
                    (possible.layer == 0 ? "no layer can be frozen"
                                         : "the deepest possible is until " + name_of(net, possible.layer)));
}

std::int64_t frozen_parameters(const model& net, int frozen_until) {
  return net.parameter_count(0, frozen_until);
}

std::string describe_freeze(const model& net, int frozen_until) {
  if (frozen_until == 0) return "";
  return "frozen until " + name_of(net, frozen_until) + ": " + grouped(frozen_parameters(net, frozen_until)) + " of " +
         grouped(net.parameter_count()) + " parameters";
}

std::string describe_freeze_change(const model& net, int before, int now) {
  if (now == before) return "";
  const auto count = grouped(net.parameter_count(std::min(before, now), std::max(before, now)));
  bool has_statistics = false;
  for (int l = before; l < now; ++l)
    has_statistics = has_statistics || !net.states(l).empty();
  if (now > before)
    return describe_freeze(net, now) + "; the optimizer's state of the " + count + " that are frozen now is dropped" +
           (has_statistics ? ", and their running statistics become the mean over replicas" : "");
  return (now > 0 ? describe_freeze(net, now) : "nothing is frozen any more") + "; the optimizer's state of the " +
         count + " that are trained again begins anew";
}

} // namespace penstock::actors
