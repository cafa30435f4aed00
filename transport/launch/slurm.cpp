// Slurm's variables, its ways of shortening lists included.
#include "transport/launch/slurm.hpp"

#include "transport/launch/values.hpp"

namespace penstock::transport {

namespace {

// Steps that srun did not make (batch scripts, interactive shells) have ids near 2^32.
constexpr std::int64_t first_special_step = 0xffff'fff0;
constexpr std::int64_t largest_id = 0xffff'ffff;

std::optional<std::int64_t> id(const environment& variables, const std::string& name) {
  const auto text = variables(name);
  if (!text) return std::nullopt;
  return whole_number(name, *text, 0, largest_id);
}

// Under the ports that Linux hands out by itself. Two steps of one job must not meet.
int port_of(std::int64_t job, std::int64_t step) {
  constexpr std::int64_t first = 15000;
  constexpr std::int64_t count = 16000;
  return static_cast<int>(first + (job + step * 97) % count);
}

// The entry for one node in "2(x3),1": two tasks on each of three nodes, one on the fourth.
std::int64_t tasks_of_node(const std::string& name, const std::string& list, std::int64_t node) {
  std::size_t at = 0;
  for (std::int64_t passed = 0; at < list.size();) {
    const auto comma = std::min(list.find(',', at), list.size());
    auto entry = list.substr(at, comma - at);
    at = comma + 1;
    std::int64_t times = 1;
    if (const auto open = entry.find("(x"); open != std::string::npos && entry.ends_with(')')) {
      times = whole_number(name, entry.substr(open + 2, entry.size() - open - 3), 1, most_ranks);
      entry.resize(open);
    }
    const auto tasks = whole_number(name, entry, 1, most_ranks);
    passed += times;
    if (node < passed) return tasks;
  }
  refuse(name, list, "an entry for node " + std::to_string(node) + ", which SLURM_NODEID names");
}

void read_local(launch& to, const environment& variables) {
  const std::string name =
      variables("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  const auto local_rank = id(variables, "SLURM_LOCALID");
  const auto node = id(variables, "SLURM_NODEID");
  const auto list = variables(name);
  if (!local_rank || !node || !list) return;
  set_local(to, "SLURM_LOCALID", *local_rank, name, tasks_of_node(name, *list, *node));
}

void read_address(launch& to, const environment& variables, std::int64_t step) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const auto list = variables(name);
    if (!list) continue;
    const auto nodes = expand_node_list(*list);
    to.master = host_name(name, nodes.front());
    // The job's nodes may be more than the step's.
    if (to.hosts == spread::unknown)
      to.hosts = nodes.size() == 1                  ? spread::one_host
                 : variables("SLURM_STEP_NODELIST") ? spread::several_hosts
                                                    : spread::unknown;
    if (const auto job = id(variables, "SLURM_JOB_ID")) to.port = port_of(*job, step);
    break;
  }
  if (const auto host = variables("MASTER_ADDR")) to.master = host_name("MASTER_ADDR", *host);
  if (const auto port = variables("MASTER_PORT")) to.port = port_number("MASTER_PORT", *port);
}

} // namespace

std::optional<launch> read_slurm(const environment& variables) {
  const auto step = id(variables, "SLURM_STEP_ID");
  if (!step || *step >= first_special_step) return std::nullopt;
  const char* size_name = variables("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const auto size = variables(size_name);
  const auto rank = variables("SLURM_PROCID");
  if (!rank || !size) refuse_half("SLURM_STEP_ID", rank ? "SLURM_NTASKS" : "SLURM_PROCID");
  launch found;
  found.source = "Slurm";
  found.size = static_cast<int>(whole_number(size_name, *size, 1, most_ranks));
  found.rank = static_cast<int>(whole_number("SLURM_PROCID", *rank, 0, most_ranks));
  check_rank("SLURM_PROCID", found.rank, size_name, found.size);
  read_local(found, variables);
  read_address(found, variables, *step);
  if (const auto restarts = id(variables, "SLURM_RESTART_COUNT"))
    found.restarts = static_cast<int>(std::min(*restarts, most_ranks));
  return found;
}

} // namespace penstock::transport
