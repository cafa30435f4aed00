// Who this process is in its job, from flags or from the launcher's variables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace penstock::transport {

/// Where the ranks of a job are, as far as the launcher says.
enum class spread : std::uint8_t { unknown, one_host, several_hosts };

struct launch {
  int rank = 0;
  int size = 1;
  int local_rank = 0; ///< among the ranks of this host
  int local_size = 1;
  spread hosts = spread::unknown;
  std::string master = "127.0.0.1"; ///< where rank 0 is: a name or an address
  int port = 0;
  int listening_socket = -1; ///< rank 0: inherited from `penstock launch`, already bound; else -1
  int restarts = 0;          ///< how often the launcher has started the job anew
  std::string source =
      "single process"; ///< for the log: "flags", "penstock launch", "torchrun", "Slurm", "Open MPI", "PMI"
  /// For the log: what launchers behind the source say otherwise and is not used, "Slurm's rank 0 of 1".
  std::vector<std::string> unused;
};

/// Whether ranks may come from other hosts. Where the launcher does not say so, every name but the loopback's counts.
bool expects_other_hosts(const launch& where);

/// What the command line says; unset where it says nothing.
struct launch_flags {
  std::optional<int> rank;
  std::optional<int> size;
  std::string master; ///< "HOST:PORT"
};

/// Reads a variable; nothing when it is not set.
using environment = std::function<std::optional<std::string>(const std::string&)>;
environment process_environment();

/// Flags, then penstock launch's own variables (PENSTOCK_RANK …), torchrun's, Slurm's (its compressed node lists are
/// expanded to find rank 0's host), Open MPI's, PMI's; else a single process. The first that says a rank is taken: a
/// launcher that is run in another's shell inherits that one's variables. MPI's ranks that are all on one host meet at
/// a port made from the job's name where no address is given. Flags without --master are completed from the first
/// launcher of several ranks, which must say the same rank and size. Throws usage_error, one line that names the
/// variable, what was found and what was wanted: a rank that is not below the size, half a set, sets that contradict
/// each other within the source, a port that is none, flags that contradict what would complete them, a loopback
/// address that ranks of other hosts are given to find rank 0 by.
launch read_launch(const launch_flags& flags, const environment& variables);

/// "n[01-03,07],m2" as n01 n02 n03 n07 m2. Throws usage_error.
std::vector<std::string> expand_node_list(const std::string& list);

} // namespace penstock::transport
