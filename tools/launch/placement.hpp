// Which rank runs on which host.
#pragma once

#include <string>
#include <vector>

namespace penstock::tools::launcher {

struct host_slots {
  std::string host;
  int slots = 1;
};

struct place {
  int rank = 0;
  std::string host; ///< empty: this machine
  int local_rank = 0;
  int local_size = 1;
  bool is_here() const { return host.empty(); }
};

/// "a:2,b" as two slots on a and one on b. Throws usage_error.
std::vector<host_slots> parse_hosts(const std::string& text);

/// localhost, 127.x and the machine's own name.
bool is_this_machine(const std::string& host);

/// Ranks fill the hosts in order; no hosts: all are here. Throws usage_error when there are too few slots, or when
/// other hosts would look for rank 0 at a loopback address.
std::vector<place> place_ranks(int ranks, const std::vector<host_slots>& hosts);

} // namespace penstock::tools::launcher
