// The faults that the checks of a history find, of which one is told.
#pragma once

#include "actors/trace/record.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace penstock::actors {

/// Keeps the violation that began first. A credit or a list that is not kept counts only when nothing else is wrong:
/// what is missing or doubled puts all that follows out of place.
class violations {
public:
  static constexpr std::int64_t at_the_end = std::numeric_limits<std::int64_t>::max(); ///< of what never was
  enum class weight : std::uint8_t { consequence, fault };
  void add(std::int64_t time_ns, const std::string& line, weight w = weight::fault) {
    if (first_ && (w < weight_ || (w == weight_ && first_->first <= time_ns))) return;
    first_.emplace(time_ns, place + line);
    weight_ = w;
  }
  std::string place; ///< stands before each line that is added from now on
  std::optional<std::string> first() const { return first_ ? std::optional(first_->second) : std::nullopt; }

private:
  std::optional<std::pair<std::int64_t, std::string>> first_;
  weight weight_ = weight::consequence;
};

/// "minibatch 3", "minibatch 3 micro-batch 1" where there are several.
inline std::string micro_name(const trace_header& header, std::int64_t minibatch, std::int64_t microbatch) {
  std::string name = "minibatch " + std::to_string(minibatch);
  if (header.plan.microbatches > 1) name += " micro-batch " + std::to_string(microbatch);
  return name;
}

} // namespace penstock::actors
