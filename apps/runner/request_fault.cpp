// By how the words begin.
#include "apps/runner/request_fault.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace penstock::apps {

std::string request_fault(const std::string& words) {
  using entry = std::pair<std::string_view, std::string_view>;
  constexpr std::array options{entry{"batch is", "--batch"},
                               entry{"data-parallel has one stage", "--schedule"},
                               entry{"devices is", "--devices"},
                               entry{"frozen-until", "--frozen-until"},
                               entry{"first layers", "--cuts"},
                               entry{"in-flight", "--in-flight"},
                               entry{"keep together", "--keep-together"},
                               entry{"micro-batches", "--microbatches"},
                               entry{"replicas", "--replicas"},
                               entry{"schedule ", "--schedule"},
                               entry{"stages ", "--stages"},
                               entry{"unknown schedule", "--schedule"},
                               entry{"update-lag", "--update-lag"}};
  for (const auto& [begin, option] : options)
    if (words.starts_with(begin)) return std::string(option) + ": " + words;
  return words;
}

} // namespace penstock::apps
