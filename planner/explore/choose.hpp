// Which of the trials wins, and what is said about the others.
#pragma once

#include "planner/explore/trial.hpp"

#include <string>
#include <vector>

namespace penstock::planner {

/// Index of the winner among those that run: the fastest; of those within 0.5% of it the one with fewest devices, then
/// a synchronous one (no staleness for the same speed), then the one with least update lag, then the one with fewest
/// micro-batches in flight, then the one
/// whose fullest device holds least, then the fastest, then the first. Those that part what the model keeps together
/// are left aside unless the fastest of the others takes more than `worth_parting` times as long. -1 if none runs.
int winner_of(const std::vector<trial>& trials);

/// The winner's plan with its reason, the runner-up (the best of another partition, schedule or M) and at most `rows`
/// rows: the winner, then by speed, each partition, schedule and M once with its best credits, and in any case the best
/// of every schedule and of every origin. Of faster ones that were left aside for what they part there are three; none
/// of them is the runner-up.
plan explained(const std::vector<trial>& trials, int winner, std::size_t rows);

/// Plans worth running to see which is really fastest: the winner's, then by speed the best of every shape (replicas of
/// the stages, schedule and M), then further cuts of those shapes; at most `most`, each with its reason. Where the
/// winner parts nothing that the model keeps together, none of them does.
std::vector<plan> contenders(const std::vector<trial>& trials, int winner, std::size_t rows, std::size_t most);

} // namespace penstock::planner
