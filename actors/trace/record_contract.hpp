// What a trace file can hold: one table that its writer and its reader both go by.
#pragma once

#include "actors/trace/record.hpp"
#include "actors/trace/track_event.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace penstock::actors {

/// What a whole-number field of a record may be; -1, which a file leaves out, among it.
struct number_range {
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool holds(std::int64_t value) const { return least <= value && value <= most; }
};

/// All that the field's type holds, and no more than 2^53: below that numbers add without overflow.
template <class Number>
constexpr number_range range_of() {
  constexpr std::int64_t bound = std::int64_t{1} << 53U;
  return {std::max<std::int64_t>(std::numeric_limits<Number>::min(), -bound),
          std::min<std::int64_t>(std::numeric_limits<Number>::max(), bound)};
}

/// Calls visit(field, number, range) for each whole-number field of the record, which may be const. What this names is
/// what a file carries of a record beside its times, kind and reason.
template <class Record, class Visit>
void for_each_number(Record& r, Visit visit) {
  const auto hand = [&](track_event::field field, auto& number) {
    visit(field, number, range_of<std::remove_cvref_t<decltype(number)>>());
  };
  hand(track_event::stage, r.stage);
  hand(track_event::replica, r.replica);
  hand(track_event::minibatch, r.minibatch);
  hand(track_event::microbatch, r.microbatch);
  hand(track_event::version_read, r.version_read);
  hand(track_event::version_written, r.version_written);
  hand(track_event::bytes, r.bytes);
  hand(track_event::stretch, r.stretch);
  hand(track_event::peer, r.peer);
  hand(track_event::mailbox_depth, r.mailbox_depth);
  hand(track_event::rank, r.rank);
}

/// Why a file with this header cannot hold the record, in words that may follow a place in the file; "" where it can.
/// The writer leaves such a record out and counts it as dropped, the reader refuses the file. A stage, replica or peer
/// must be one of any of the header's plans; whether it is one of the plan that the record's stretch ran under is for
/// the history checker to say.
std::string misfit(const trace_record& r, const trace_header& header);

/// What of the record's stage, replica and peer the plan does not have; "" where it has them.
std::string misfit_of_plan(const trace_record& r, const planner::execution_plan& plan);

/// Throws penstock::error, one line, for a header that no file may have: counts that do not fit together or that stand
/// for more than any run has, so that what follows from a few bytes stays small.
void check_header(const trace_header& header);

inline constexpr std::size_t most_stages = 10'000;
inline constexpr int most_replicas = std::numeric_limits<std::int16_t>::max(); ///< of all stages together
inline constexpr std::size_t most_changes = 4'096;                             ///< of a run's plan
inline constexpr std::int64_t most_replicas_of_run = 1LL << 18U;               ///< of all its plans together
inline constexpr int most_ranks = std::numeric_limits<std::int16_t>::max();

} // namespace penstock::actors
