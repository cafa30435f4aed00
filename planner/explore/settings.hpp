// What is chosen before a partition is searched: the schedule and the number of micro-batches.
#pragma once

#include "planner/explore/pins.hpp"
#include "planner/search/candidate.hpp"

#include <string>
#include <vector>

namespace penstock::planner {

struct setting {
  std::string schedule;
  search_request search;           ///< M, how updates and memory are charged, what is pinned
  bool microbatches_given = false; ///< by the request
  double least_samples = 0;        ///< of a micro-batch, unless M was given
};

/// Every schedule of `fixed` with every M that may be tried: those of the request, else powers of two up to 1024. A
/// micro-batch is never smaller than half of the least measured size, unless asked for: the profile says nothing about
/// it. The pipedream family has M = 1, and is left out where the request has others only. For data-parallel M counts
/// micro-batches of one replica. pipedream is there twice, without an update lag and with one of 1 on replicated
/// stages, unless the lag is pinned.
std::vector<setting> settings_of(const profile& p, const plan_request& request, const pins& fixed);

/// M itself where that many replicas divide it, else the next number that they divide; 0 where that is more than twice
/// as many, or leaves too few samples for a micro-batch, and where M was given.
int rounded_microbatches(const setting& how, std::int64_t replicas, std::int64_t batch);

/// Powers of two, at most 1024, into which a batch may be split so that no micro-batch is smaller than half of the
/// least measured size nor than what the model trains on; 1 where none is.
std::vector<int> microbatches_worth_trying(const profile& p, std::int64_t batch, std::int64_t last_batch);

/// How a schedule's updates, versions and gradients are charged (DESIGN section 2's table).
search_request charges_of(const std::string& schedule, int microbatches, const plan_request& request);

} // namespace penstock::planner
