// Tells all ranks, and people, what the trigger says.
#include "actors/run/averaging_start.hpp"

#include <fmt/format.h>

#include <sstream>

namespace penstock::actors {

void averaging_start::resume(asgd_trigger::history of_rank_0, const job* ranks) {
  if (patience_ == 0) return;
  if (ranks != nullptr) {
    std::string text = fmt::format("{} {}", of_rank_0.last_at, of_rank_0.switched_at);
    for (const auto loss : of_rank_0.losses)
      text += fmt::format(" {}", loss); // the shortest that is the same number again
    std::istringstream words(ranks->control.broadcast("evaluations", text, ranks->patience));
    words >> of_rank_0.last_at >> of_rank_0.switched_at;
    of_rank_0.losses.clear();
    for (std::string word; words >> word;)
      of_rank_0.losses.push_back(std::stod(word));
  }
  trigger_.resume(std::move(of_rank_0));
}

bool averaging_start::lacks(std::int64_t step, const drain_plan& drains) const {
  return patience_ > 0 && drains.evaluates_at(step) && seen().switched_at < 0 && seen().last_at != step;
}

std::string averaging_start::judge(double loss, std::int64_t step, const drain_plan& drains) {
  if (patience_ == 0 || !drains.evaluates_at(step)) return "";
  const double bar = trigger_.bar();
  if (!trigger_.take(loss, step)) return "";
  return fmt::format(
      "asgd: weights are averaged from step {} on: the loss {:.4f} is worse than {:.4f}, the best of all "
      "evaluations but the last {}",
      step, loss, bar, patience_);
}

} // namespace penstock::actors
