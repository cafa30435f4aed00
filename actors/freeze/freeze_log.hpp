// Freeze decisions as lines of JSON, to be written as they are made and read to repeat them under another plan.
#pragma once

#include "actors/freeze/freeze_decider.hpp"

namespace penstock::actors {

/// What a file of decisions is of.
struct freeze_log_header {
  std::string model;
  std::vector<std::string> units; ///< names

  friend bool operator==(const freeze_log_header&, const freeze_log_header&) = default;
};
freeze_log_header log_header_of(const model& net);

struct freeze_log {
  freeze_log_header of;
  std::vector<freeze_decision> decisions;
  bool is_complete = false; ///< the run that wrote it came to its end
};

/// One JSON object on one line, every number of the decision in it; what is not_seen is null.
std::string json_of(const freeze_decision& decision);

/// Makes the lines of a log, each with a check over all that is before it. Each ends with a line feed.
class freeze_log_lines {
public:
  std::string begin(const freeze_log_header& of);
  std::string add(const freeze_decision& decision);
  std::string end();

private:
  std::string checked(std::string object);
  std::uint64_t check_ = 0;
  std::int64_t decisions_ = 0;
};

/// Reads what freeze_log_lines wrote. Throws penstock::error, one line that begins with `source`, its line's number,
/// and says what was found and what was wanted: another kind of file, lines that are cut, altered, missing or in
/// another order, numbers out of range.
freeze_log parse_freeze_log(const std::string& text, const std::string& source);

/// Whether decisions of that log can be repeated on this model. Throws usage_error that begins with `source` for one of
/// another model, or cut off before its run's end.
void require_repeatable(const freeze_log& log, const model& net, const std::string& source);

} // namespace penstock::actors
