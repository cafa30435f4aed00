// Statistics are few; optimizer state is as large as the weights and is read once, at the speed of memory.
#include "actors/check_state.hpp"

#include "kernels/finite.hpp"

namespace penstock::actors {

void require_finite_state(pipeline& p, const std::string& after) {
  const auto names = p.step->state_names();
  for (auto& s : p.stages) {
    if (!s.is_local()) continue;
    const auto of_stage = " of stage " + std::to_string(s.index) + " " + after;
    for (const int r : s.local)
      for (std::size_t i = 0; i < s.layers->states().size(); ++i) {
        const auto& state = s.layers->states()[i];
        require_state(s.replicas[static_cast<std::size_t>(r)].states[i], state.spec,
                      "[training] " + state.name + of_stage);
      }
    s.update_stream().run([&](backend& ops) {
      for (std::size_t i = 0; i < s.optimizer_states.size(); ++i)
        for (std::size_t n = 0; n < names.size(); ++n)
          if (const auto& t = s.optimizer_states[i].tensors[n]; !is_finite(t))
            require_finite(ops.to_plain(t),
                           "[training] optimizer state " + s.layers->parameters()[i].name + "." + names[n] + of_stage);
    });
  }
}

} // namespace penstock::actors
