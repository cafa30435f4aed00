// Arguments, variables, cores, and exec.
#include "apps/runner/shrink.hpp"

#include "kernels/check.hpp"
#include "transport/launch/cores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <netdb.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

extern char** environ; // NOLINT: POSIX names it so

namespace penstock::apps {

namespace {

using namespace std::chrono_literals;

constexpr const char* replicas_variable = "PENSTOCK_REMAINING_REPLICAS";
constexpr const char* lost_variable = "PENSTOCK_LOST";

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

bool is_ours(const std::string& variable) {
  for (const char* name : {"PENSTOCK_RANK=", "PENSTOCK_WORLD_SIZE=", "PENSTOCK_LOCAL_RANK=",
                           "PENSTOCK_LOCAL_WORLD_SIZE=", "PENSTOCK_MASTER=", "PENSTOCK_LISTEN_FD=",
                           "PENSTOCK_RESTARTS=", "PENSTOCK_REMAINING_REPLICAS=", "PENSTOCK_LOST="})
    if (variable.starts_with(name)) return true;
  return false;
}

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int n : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

std::vector<std::string> variables_of(const restart_recipe& r, int lost, const std::vector<int>& replicas) {
  std::vector<std::string> all;
  for (char** v = environ; *v != nullptr; ++v)
    if (!is_ours(*v)) all.emplace_back(*v);
  const auto& host = r.members[static_cast<std::size_t>(lost)].host_identity;
  const bool was_here = r.members[static_cast<std::size_t>(r.where.rank)].host_identity == host;
  int before_here = 0; // ranks of this host before this one that are left
  for (int rank = 0; rank < r.where.rank; ++rank)
    if (rank != lost && r.members[static_cast<std::size_t>(rank)].host_identity ==
                            r.members[static_cast<std::size_t>(r.where.rank)].host_identity)
      ++before_here;
  const auto before = lost_before();
  all.push_back(fmt::format("PENSTOCK_RANK={}", r.where.rank - (r.where.rank > lost ? 1 : 0)));
  all.push_back(fmt::format("PENSTOCK_WORLD_SIZE={}", r.where.size - 1));
  all.push_back(fmt::format("PENSTOCK_LOCAL_RANK={}", before_here));
  all.push_back(fmt::format("PENSTOCK_LOCAL_WORLD_SIZE={}", r.where.local_size - (was_here ? 1 : 0)));
  all.push_back(fmt::format("PENSTOCK_MASTER={}:{}", r.where.master, r.where.port));
  all.push_back(fmt::format("PENSTOCK_RESTARTS={}", r.where.restarts + 1));
  all.push_back(fmt::format("{}={}{}rank {}", lost_variable, before, before.empty() ? "" : ", then ", lost));
  if (!replicas.empty()) all.push_back(std::string(replicas_variable) + "=" + joined(replicas));
  return all;
}

bool answers(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval longest{1, 0}; // for a host that is cut off
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
  const bool connected = fd >= 0 && ::connect(fd, found->ai_addr, found->ai_addrlen) == 0;
  if (fd >= 0) ::close(fd);
  ::freeaddrinfo(found);
  return connected;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& t : texts)
    all.push_back(t.data());
  all.push_back(nullptr);
  return all;
}

} // namespace

std::vector<int> without_rank(const actors::placement& where, int lost) {
  std::vector<int> replicas;
  for (const auto& stage : where.rank_of) {
    const auto gone = std::count(stage.begin(), stage.end(), lost);
    if (const int left = static_cast<int>(stage.size()) - static_cast<int>(gone); left > 0) replicas.push_back(left);
  }
  return replicas;
}

restart_recipe make_restart_recipe(const transport::launch& where, const std::vector<transport::member>& members) {
  return {own_arguments(), transport::cores_of_rank(0, 1), members, where};
}

std::string start_anew(const restart_recipe& recipe, int lost, const std::vector<int>& replicas) {
  // Rank 0's old self answers until it has gone the same way; it takes less than this.
  constexpr auto patience = 5s;
  const auto until = std::chrono::steady_clock::now() + patience;
  if (recipe.where.rank != 0)
    while (std::chrono::steady_clock::now() < until && answers(recipe.where.master, recipe.where.port))
      std::this_thread::sleep_for(50ms);
  std::fflush(nullptr);
  auto arguments = recipe.arguments;
  auto variables = variables_of(recipe, lost, replicas);
  transport::bind_to(recipe.cores);
  ::execve("/proc/self/exe", pointers(arguments).data(), pointers(variables).data());
  return std::strerror(errno);
}

std::vector<int> remaining_replicas() {
  const char* text = std::getenv(replicas_variable);
  std::vector<int> replicas;
  if (text == nullptr) return replicas;
  std::istringstream in(text);
  for (std::string number; std::getline(in, number, ',');)
    replicas.push_back(std::atoi(number.c_str()));
  return replicas;
}

std::string lost_before() {
  const char* text = std::getenv(lost_variable);
  return text == nullptr ? "" : text;
}

void shrink_pipeline(const std::vector<int>& replicas, actors::run_options& run) {
  const bool same_stages = replicas.size() == run.replicas.size();
  run.replicas = replicas;
  run.ranks.clear();
  // Credits were chosen for other replica counts, which may not even allow them.
  if (run.in_flight.kind == planner::in_flight_spec::mode::given) run.in_flight = {};
  if (same_stages) return;
  run.cuts.clear();
  run.recompute.clear();
}

} // namespace penstock::apps
