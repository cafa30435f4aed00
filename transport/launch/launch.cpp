// Reads the launchers' variables in DESIGN's order.
#include "transport/launch/launch.hpp"

#include "kernels/check.hpp"
#include "transport/launch/host.hpp"
#include "transport/launch/slurm.hpp"
#include "transport/launch/values.hpp"

#include <array>
#include <cstdlib>
#include <tuple>

namespace penstock::transport {

namespace {

// How a launcher spells who a process is.
struct spelling {
  const char* source;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

constexpr spelling ours{"penstock launch", "PENSTOCK_RANK", "PENSTOCK_WORLD_SIZE", "PENSTOCK_LOCAL_RANK",
                        "PENSTOCK_LOCAL_WORLD_SIZE"};
constexpr spelling torchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr spelling open_mpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr spelling pmi{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

std::optional<launch> read_ranks(const spelling& names, const environment& variables) {
  const auto rank = variables(names.rank);
  const auto size = variables(names.size);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) refuse_half(rank ? names.rank : names.size, rank ? names.size : names.rank);
  launch found;
  found.source = names.source;
  found.size = static_cast<int>(whole_number(names.size, *size, 1, most_ranks));
  found.rank = static_cast<int>(whole_number(names.rank, *rank, 0, most_ranks));
  check_rank(names.rank, found.rank, names.size, found.size);
  // Hand-written scripts often leave the local size out; such a process counts as alone on its host.
  const auto local_rank = variables(names.local_rank);
  const auto local_size = variables(names.local_size);
  if (local_rank && local_size)
    set_local(found, names.local_rank, whole_number(names.local_rank, *local_rank, 0, most_ranks), names.local_size,
              whole_number(names.local_size, *local_size, 1, most_ranks));
  return found;
}

void read_restarts(launch& to, const char* name, const environment& variables) {
  if (const auto text = variables(name)) to.restarts = static_cast<int>(whole_number(name, *text, 0, most_ranks));
}

// torchrun sets both; scripts around MPI programs use the same names.
void read_address(launch& to, const environment& variables) {
  const auto host = variables("MASTER_ADDR");
  const auto port = variables("MASTER_PORT");
  if (!host && !port) return;
  if (!host || !port) refuse_half(host ? "MASTER_ADDR" : "MASTER_PORT", host ? "MASTER_PORT" : "MASTER_ADDR");
  to.master = host_name("MASTER_ADDR", *host);
  to.port = port_number("MASTER_PORT", *port);
}

std::optional<launch> read_ours(const environment& variables) {
  auto found = read_ranks(ours, variables);
  if (!found) return found;
  if (const auto master = variables("PENSTOCK_MASTER"))
    std::tie(found->master, found->port) = host_and_port("PENSTOCK_MASTER", *master);
  if (const auto socket = variables("PENSTOCK_LISTEN_FD")) {
    if (found->rank != 0) refuse("PENSTOCK_LISTEN_FD", *socket, "it unset for rank " + std::to_string(found->rank));
    found->listening_socket = static_cast<int>(whole_number("PENSTOCK_LISTEN_FD", *socket, 3, most_ranks));
  }
  read_restarts(*found, "PENSTOCK_RESTARTS", variables);
  return found;
}

std::optional<launch> read_torchrun(const environment& variables) {
  auto found = read_ranks(torchrun, variables);
  if (!found) return found;
  read_address(*found, variables);
  // Where the agent says so, it serves torch's own store at MASTER_PORT for as long as the job runs: ours is the next.
  if (variables("TORCHELASTIC_USE_AGENT_STORE") == "True" && found->port != 0)
    found->port += found->port < 65535 ? 1 : -1;
  read_restarts(*found, "TORCHELASTIC_RESTART_COUNT", variables);
  return found;
}

// MPI's launchers give no address, but a name of the job's own: on one host that makes a port, under those that Linux
// hands out by itself. What else may listen there lacks the job's secret, or keeps rank 0 from listening.
int port_of_job(const environment& variables) {
  constexpr std::uint32_t first = 15000;
  constexpr std::uint32_t count = 16000;
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_PORT", "PMI_JOBID"}) {
    const auto job = variables(name);
    if (!job || job->empty()) continue;
    std::uint32_t mixed = 2166136261; // FNV-1a
    for (const unsigned char c : *job)
      mixed = (mixed ^ c) * 16777619;
    return static_cast<int>(first + mixed % count);
  }
  return 0;
}

std::optional<launch> read_mpi(const spelling& names, const environment& variables) {
  auto found = read_ranks(names, variables);
  if (!found) return found;
  read_address(*found, variables);
  if (found->port == 0 && found->hosts == spread::one_host) found->port = port_of_job(variables);
  return found;
}

bool agree(const launch& a, const launch& b) {
  return a.rank == b.rank && a.size == b.size;
}

// mpirun starts its daemons on other nodes with srun. What Slurm says to the ranks there is about the daemons.
std::optional<launch> read_slurm_task(const environment& variables) {
  auto found = read_slurm(variables);
  if (!found) return found;
  const auto mpi = read_ranks(open_mpi, variables);
  return mpi && !agree(*mpi, *found) ? std::nullopt : found;
}

using reader = std::optional<launch> (*)(const environment&);

constexpr std::array<reader, 5> launchers{read_ours, read_torchrun, read_slurm_task,
                                          [](const environment& variables) { return read_mpi(open_mpi, variables); },
                                          [](const environment& variables) { return read_mpi(pmi, variables); }};

std::string who(const launch& l) {
  return "rank " + std::to_string(l.rank) + " of " + std::to_string(l.size);
}

// What goes unused may be wrong in itself, which is then nobody's concern.
std::optional<launch> read_if_right(reader read, const environment& variables) {
  try {
    return read(variables);
  } catch (const usage_error&) {
    return std::nullopt;
  }
}

// Where rank 0 listens, and whatever else flags leave open.
launch complete(launch flags, const environment& variables) {
  for (const auto read : launchers) {
    auto found = read_if_right(read, variables);
    if (!found || found->size == 1) continue; // a single process has no address to give: some shell's variables
    if (!agree(*found, flags))
      throw usage_error("--rank and --world-size: found " + who(flags) + ", wanted the " + who(*found) + " that " +
                        found->source + " says, from where the rest would come; or give --master HOST:PORT");
    return *found;
  }
  read_address(flags, variables);
  return flags;
}

std::optional<launch> read_flags(const launch_flags& flags, const environment& variables) {
  if (!flags.rank && !flags.size) return std::nullopt;
  if (!flags.rank || !flags.size)
    refuse_half(flags.rank ? "--rank" : "--world-size", flags.rank ? "--world-size" : "--rank");
  launch found;
  found.source = "flags";
  found.size = static_cast<int>(whole_number("--world-size", std::to_string(*flags.size), 1, most_ranks));
  found.rank = static_cast<int>(whole_number("--rank", std::to_string(*flags.rank), 0, most_ranks));
  check_rank("--rank", found.rank, "--world-size", found.size);
  return flags.master.empty() && found.size > 1 ? complete(found, variables) : found;
}

launch read_first(const launch_flags& flags, const environment& variables) {
  auto taken = read_flags(flags, variables);
  for (const auto read : launchers) {
    if (!taken) {
      taken = read(variables);
    } else if (const auto other = read_if_right(read, variables); other && !agree(*taken, *other)) {
      taken->unused.push_back(other->source + "'s " + who(*other));
    }
  }
  return taken ? *taken : launch{};
}

std::string name_of_master(const launch& found, const launch_flags& flags, const environment& variables) {
  if (!flags.master.empty()) return "--master";
  if (found.source == ours.source) return "PENSTOCK_MASTER";
  return variables("MASTER_ADDR") ? "MASTER_ADDR" : "SLURM_JOB_NODELIST";
}

} // namespace

environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

bool expects_other_hosts(const launch& where) {
  return where.hosts == spread::several_hosts || (where.hosts == spread::unknown && !is_loopback_name(where.master));
}

launch read_launch(const launch_flags& flags, const environment& variables) {
  auto found = read_first(flags, variables);
  if (!flags.master.empty()) std::tie(found.master, found.port) = host_and_port("--master", flags.master);
  if (found.size > 1 && found.port == 0)
    throw usage_error((found.source == ours.source ? "PENSTOCK_MASTER" : "MASTER_ADDR and MASTER_PORT") +
                      std::string(": not set, wanted where rank 0 of the ") + std::to_string(found.size) +
                      " ranks listens (from " + found.source + "); or give --master HOST:PORT");
  if (found.size > 1 && found.hosts == spread::several_hosts && is_loopback_name(found.master))
    refuse(name_of_master(found, flags, variables), found.master,
           "the name or address under which other hosts reach rank 0, since " + found.source + " says that " +
               std::to_string(found.size) + " ranks are on several hosts");
  return found;
}

} // namespace penstock::transport
