// What ranks say on stderr, without saying the job's first cause once for each of them.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace penstock::tools::launcher {

/// When a job fails, its ranks end with the same last line. The first of them is printed; an equal line of another rank
/// waits until that rank has ended with a failure and is then dropped. It is printed after all if the rank says more,
/// ends well, or lives on.
class last_words {
public:
  using clock = std::chrono::steady_clock;
  using printer = std::function<void(std::size_t rank, const std::string& line)>;

  last_words(std::size_t ranks, printer print) : ranks_(ranks), print_(std::move(print)) {}

  void said(std::size_t rank, std::string line, clock::time_point now);
  void ended(std::size_t rank, bool has_failed);
  void passed(clock::time_point now, bool is_ending); ///< prints what waits too long in a job that is not ending

private:
  struct rank_state {
    std::optional<std::string> last;
    bool is_held = false;
    clock::time_point since;
  };
  void release(std::size_t rank);

  std::vector<rank_state> ranks_;
  printer print_;
};

} // namespace penstock::tools::launcher
