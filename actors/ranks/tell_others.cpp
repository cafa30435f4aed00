// What is told, and whose cause it was.
#include "actors/ranks/tell_others.hpp"

#include <chrono>
#include <thread>

namespace penstock::actors {

// What broke here may have broken because a rank was lost or the job had ended. Who is lost becomes known a little
// later than that a connection broke, and is the better cause.
std::optional<transport::job_failure> tell_others(const job& ranks, const std::string& what) {
  constexpr auto patience = std::chrono::milliseconds(600); // twice what the control plane takes over a suspicion
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!ranks.control.failure() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ranks.control.fail(what);
  auto cause = ranks.control.failure();
  return cause && cause->rank != ranks.rank() ? cause : std::nullopt;
}

} // namespace penstock::actors
