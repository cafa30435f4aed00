// Looks for the groups that a plan's stages part.
#include "planner/explore/hints.hpp"

#include "planner/explore/stage_sums.hpp"

#include <algorithm>
#include <vector>

namespace penstock::planner {

std::string parted_group(const plan& made, const profile& p) {
  if (p.kept_together.empty() || made.stages.size() < 2) return "";
  std::vector<std::size_t> stage_of(p.layers.size());
  const auto stages = layers_of_stages(made, p);
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const auto layer : stages[s])
      stage_of[static_cast<std::size_t>(layer)] = s;
  for (const auto& group : p.kept_together) {
    const auto stays = [&](int layer) {
      return stage_of[static_cast<std::size_t>(layer)] == stage_of[static_cast<std::size_t>(group.front())];
    };
    if (!std::all_of(group.begin(), group.end(), stays))
      return p.layers[static_cast<std::size_t>(group.front())].name + ".." +
             p.layers[static_cast<std::size_t>(group.back())].name;
  }
  return "";
}

} // namespace penstock::planner
