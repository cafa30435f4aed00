// What remains of a pipeline, and of a process's arguments, variables and descriptors.
#include "apps/runner/shrink.hpp"

#include "apps/runner/options.hpp"
#include "apps/runner/signals.hpp"
#include "kernels/text.hpp"
#include "transport/launch/cores.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <linux/close_range.h>
#include <numeric>
#include <sstream>
#include <string_view>
#include <unistd.h>

extern char** environ; // NOLINT: POSIX names it so

namespace penstock::apps {

namespace {

constexpr const char* lost_variable = "PENSTOCK_LOST";            // "2;1,3": losses
constexpr const char* hosts_variable = "PENSTOCK_HOSTS_OF_RANKS"; // "0,0,1": restart_recipe::hosts

bool is_lost(const std::vector<int>& lost, int rank) {
  return std::binary_search(lost.begin(), lost.end(), rank);
}

bool names_this_rank(const std::string& argument) {
  return argument == "--rank" || argument == "--world-size" || argument == "--master";
}

std::vector<std::string> own_arguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> all;
  for (std::string a; std::getline(in, a, '\0');)
    all.push_back(a);
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (names_this_rank(all[i].substr(0, all[i].find('=')))) {
      if (all[i].find('=') == std::string::npos) ++i; // its value
      continue;
    }
    kept.push_back(all[i]);
  }
  return kept;
}

bool is_ours(std::string_view variable) {
  const auto name = variable.substr(0, variable.find('='));
  for (const std::string_view ours :
       {"PENSTOCK_RANK", "PENSTOCK_WORLD_SIZE", "PENSTOCK_LOCAL_RANK", "PENSTOCK_LOCAL_WORLD_SIZE", "PENSTOCK_MASTER",
        "PENSTOCK_LISTEN_FD", "PENSTOCK_RESTARTS", lost_variable, hosts_variable})
    if (name == ours) return true;
  return false;
}

std::string joined(const std::vector<int>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

std::string as_variable(const losses& lost) {
  std::string text;
  for (const auto& together : lost)
    text += (text.empty() ? "" : ";") + joined(together);
  return text;
}

// Which of the ranks that are left on this host this one is, and of how many.
void settle_local(transport::launch& next, const restart_recipe& r, const std::vector<int>& lost) {
  if (r.hosts.empty() || next.local_size == 1) return; // then it was alone, or counted as such
  const auto here = r.hosts.at(static_cast<std::size_t>(r.where.rank));
  next.local_rank = next.local_size = 0;
  for (int rank = 0; rank < r.where.size; ++rank) {
    if (is_lost(lost, rank) || r.hosts[static_cast<std::size_t>(rank)] != here) continue;
    if (rank < r.where.rank) ++next.local_rank;
    ++next.local_size;
  }
}

std::vector<std::string> variables_of(const restart_recipe& r, const std::vector<int>& lost) {
  auto next = r.where;
  next.rank -= static_cast<int>(std::lower_bound(lost.begin(), lost.end(), next.rank) - lost.begin());
  next.size -= static_cast<int>(lost.size());
  settle_local(next, r, lost);
  std::vector<int> hosts;
  for (std::size_t rank = 0; rank < r.hosts.size(); ++rank)
    if (!is_lost(lost, static_cast<int>(rank))) hosts.push_back(r.hosts[rank]);
  auto all_lost = r.lost;
  all_lost.push_back(lost);

  std::vector<std::string> all;
  for (char** v = environ; *v != nullptr; ++v)
    if (!is_ours(*v)) all.emplace_back(*v);
  all.push_back(fmt::format("PENSTOCK_RANK={}", next.rank));
  all.push_back(fmt::format("PENSTOCK_WORLD_SIZE={}", next.size));
  if (next.hosts != transport::spread::unknown) {
    all.push_back(fmt::format("PENSTOCK_LOCAL_RANK={}", next.local_rank));
    all.push_back(fmt::format("PENSTOCK_LOCAL_WORLD_SIZE={}", next.local_size));
  }
  const bool has_colons = next.master.find(':') != std::string::npos;
  all.push_back(
      fmt::format("PENSTOCK_MASTER={}{}{}:{}", has_colons ? "[" : "", next.master, has_colons ? "]" : "", next.port));
  all.push_back(fmt::format("PENSTOCK_RESTARTS={}", next.restarts + 1));
  all.push_back(fmt::format("{}={}", lost_variable, as_variable(all_lost)));
  if (!hosts.empty()) all.push_back(fmt::format("{}={}", hosts_variable, joined(hosts)));
  return all;
}

// Libraries open descriptors that exec would keep. The secret is read again.
void keep_few_descriptors() {
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  const char* file = std::getenv("PENSTOCK_SECRET_FILE");
  if (file == nullptr) return;
  for (const char* folder : {"/dev/fd/%d", "/proc/self/fd/%d"})
    if (int fd = 0; std::sscanf(file, folder, &fd) == 1 && fd > STDERR_FILENO) ::fcntl(fd, F_SETFD, 0);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& t : texts)
    all.push_back(t.data());
  all.push_back(nullptr);
  return all;
}

} // namespace

losses lost_before() {
  losses lost;
  const char* text = std::getenv(lost_variable);
  if (text == nullptr) return lost;
  std::istringstream in(text);
  for (std::string together; std::getline(in, together, ';');)
    std::ranges::sort(lost.emplace_back(parse_counts(lost_variable, together, 1)));
  return lost;
}

std::string text_of(const losses& lost) {
  std::string text;
  for (const auto& together : lost)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", then ", together.size() == 1 ? "rank" : "ranks",
                        fmt::join(together, ", "));
  return text;
}

int processes_before(const losses& lost, int processes) {
  for (const auto& together : lost)
    processes += static_cast<int>(together.size());
  return processes;
}

actors::placement without_ranks(const actors::placement& where, const std::vector<int>& lost) {
  int substitutes = 0;
  for (int rank = 0; rank < where.ranks; ++rank)
    if (!is_lost(lost, rank) && where.is_idle(rank)) ++substitutes;
  std::vector<int> gone; // those whose place nobody takes
  for (const int rank : lost)
    if (!where.is_idle(rank) && substitutes-- <= 0) gone.push_back(rank);
  std::vector<int> replicas;
  for (const auto& stage : where.rank_of) {
    const auto left = std::count_if(stage.begin(), stage.end(), [&](int rank) { return !is_lost(gone, rank); });
    if (left > 0) replicas.push_back(static_cast<int>(left));
  }
  const int ranks = where.ranks - static_cast<int>(lost.size());
  auto left = actors::place_in_order(replicas, std::min(ranks, std::accumulate(replicas.begin(), replicas.end(), 0)));
  left.ranks = ranks;
  return left;
}

actors::placement without_losses(actors::placement where, const losses& lost) {
  for (const auto& together : lost)
    where = without_ranks(where, together);
  return where;
}

void shrink_pipeline(actors::placement left, actors::pipeline_request& pipeline) {
  const bool same_stages = left.rank_of.size() == pipeline.replicas.size();
  if (actors::chunks_of(pipeline) > 1 && !left.rank_of.empty()) { // one replica count for all
    const auto least = std::ranges::min(left.rank_of, {}, [](const auto& of_one) { return of_one.size(); }).size();
    for (auto& of_one : left.rank_of)
      of_one.resize(least);
  }
  pipeline.ranks = left.rank_of;
  pipeline.replicas.clear();
  for (const auto& stage : left.rank_of)
    pipeline.replicas.push_back(static_cast<int>(stage.size()));
  // Credits were chosen for other replica counts, which may not even allow them.
  if (pipeline.in_flight.kind == planner::in_flight_spec::mode::given) pipeline.in_flight = {};
  if (same_stages) return;
  pipeline.cuts.clear();
  pipeline.recompute.clear();
}

restart_recipe make_restart_recipe(const transport::launch& where) {
  restart_recipe recipe{own_arguments(), transport::cores_of_rank(0, 1), where, lost_before(), {}};
  if (const char* text = std::getenv(hosts_variable)) recipe.hosts = parse_counts(hosts_variable, text, 0);
  if (std::ssize(recipe.hosts) != where.size) recipe.hosts.clear();
  return recipe;
}

std::vector<int> hosts_of(const std::vector<transport::member>& members) {
  std::vector<int> hosts;
  for (const auto& m : members)
    hosts.push_back(static_cast<int>(std::ranges::find(members, m.host_identity, &transport::member::host_identity) -
                                     members.begin()));
  return hosts;
}

std::string start_anew(const restart_recipe& recipe, const std::vector<int>& lost) try {
  auto arguments = recipe.arguments;
  auto variables = variables_of(recipe, lost);
  transport::bind_to(recipe.cores);
  const held_signals hold;
  if (signal_guard::exit_code() != 0) return "";
  keep_few_descriptors();
  ::execve("/proc/self/exe", pointers(arguments).data(), pointers(variables).data());
  return std::strerror(errno);
} catch (const std::exception& e) {
  return e.what();
}

} // namespace penstock::apps
