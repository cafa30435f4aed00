// What this rank is at, in words.
#include "actors/run/actor_context.hpp"

namespace penstock::actors {

std::string actor_context::describe() const {
  if (stage < 0) return "starting to train";
  if (minibatch < 0) return "evaluating with stage " + std::to_string(stage);
  return "working on stage " + std::to_string(stage) + ", minibatch " + std::to_string(minibatch);
}

} // namespace penstock::actors
