// Names of stages and workers, as messages to a person have them.
#include "actors/stage/worker_place.hpp"

namespace penstock::actors {

std::string name_of(const stage_place& place) {
  auto name = "stage " + std::to_string(place.stage);
  if (place.replicas > 1) name += " replica " + std::to_string(place.replica);
  return name;
}

std::string name_of(const worker_place& place) {
  if (place.stages.size() == 1) return name_of(place.stages.front());
  auto name = "worker " + std::to_string(place.position);
  if (place.stages.front().replicas > 1) name += " replica " + std::to_string(place.replica);
  const char* before = " (stages ";
  for (const auto& s : place.stages) {
    name += before + std::to_string(s.stage);
    before = ", ";
  }
  return name + ")";
}

} // namespace penstock::actors
