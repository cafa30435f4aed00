// Which part a process has in its job's control plane.
#include "transport/control/join.hpp"

#include "kernels/check.hpp"
#include "transport/control/hello.hpp"
#include "transport/control/other_rank.hpp"
#include "transport/control/rank_0.hpp"
#include "transport/control/this_member.hpp"
#include "transport/in_process.hpp"

#include <unistd.h>

namespace penstock::transport {

std::unique_ptr<control_plane> join_job(const launch& where, const join_options& options) {
  check(where.size > 0 && where.rank >= 0 && where.rank < where.size, "a launch whose rank is not below its size");
  check(options.silence > 0ms && options.join_deadline > 0ms, "a job that waits for nothing");
  if (where.size == 1) { // nobody to talk to: no network
    if (where.listening_socket >= 0) ::close(where.listening_socket);
    return std::move(make_in_process_control(1).front());
  }
  if (where.listening_socket < 0 && (where.port <= 0 || where.port > 65535))
    throw usage_error("rank 0's address has port " + std::to_string(where.port) + ", wanted 1 to 65535");
  hello own{.rank = where.rank,
            .size = where.size,
            .generation = options.generation,
            .who = this_member(),
            .facts = comparable(options.facts)};
  return where.rank == 0 ? lead_job(where, options, std::move(own)) : follow_job(where, options, std::move(own));
}

} // namespace penstock::transport
