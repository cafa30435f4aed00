// Explores, takes the winner, and explains.
#include "planner/explore/explore.hpp"

#include "planner/explore/advice.hpp"
#include "planner/explore/choose.hpp"
#include "planner/explore/explorer.hpp"

#include <stdexcept>

namespace penstock::planner {

plan make_plan(const profile& p, const cluster& c, const plan_request& request) {
  const explorer e(p, c, request);
  auto trials = e.run();
  auto winner = winner_of(trials);
  if (winner < 0) {
    // The searches' memory is an upper bound, so what they rule out narrowly may fit after all.
    auto last = e.least_missing();
    if (last && !last->runs()) throw std::invalid_argument(advice(p, c, request, *last));
    if (!last) throw std::invalid_argument(why_none(e, request));
    trials.push_back(std::move(*last));
    winner = static_cast<int>(trials.size()) - 1;
  }
  auto best = explained(trials, winner, request.top);
  best.inputs["cluster"] = c.name;
  return best;
}

} // namespace penstock::planner
