// Ranks that are processes: killed, stopped, and in network namespaces of their own.
#include "kernels/check.hpp"
#include "tests/transport/endpoint_kinds.hpp"
#include "tests/transport/ucx/hex.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::transport {

namespace {

using steady = std::chrono::steady_clock;

/// A process with lines in and out. Killed with the object.
class child {
public:
  explicit child(std::vector<std::string> command) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) throw error("no pipe");
    std::vector<char*> words;
    for (std::string& word : command)
      words.push_back(word.data());
    words.push_back(nullptr);
    ::signal(SIGPIPE, SIG_IGN); // tell() sees by itself that nobody reads
    pid_ = ::fork();
    if (pid_ == 0) {
      ::signal(SIGPIPE, SIG_DFL);
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::execvp(words[0], words.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~child() {
    kill(SIGKILL);
    exit_status();
    ::close(to_);
    ::close(from_);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  void kill(int signal_number) {
    if (pid_ > 0) ::kill(pid_, signal_number);
  }

  void tell(const std::string& line) {
    const std::string whole = line + "\n";
    if (::write(to_, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) ADD_FAILURE() << "is gone";
  }

  /// The rest of the first line that begins so; lines before it are kept for others. Fails the test when none comes.
  std::string hear(const std::string& beginning, std::chrono::milliseconds within = patience) {
    const auto deadline = steady::now() + within;
    for (;;) {
      const auto it = std::find_if(lines_.begin(), lines_.end(),
                                   [&](const std::string& line) { return line.starts_with(beginning); });
      if (it != lines_.end()) {
        std::string rest = it->substr(beginning.size());
        lines_.erase(it);
        return rest;
      }
      if (!read_until(deadline)) {
        ADD_FAILURE() << "did not say '" << beginning << "', but: " << testing::PrintToString(lines_);
        return {};
      }
    }
  }

  /// Exit code, or minus the signal; waits for the end, which is near.
  int exit_status() {
    if (pid_ <= 0) return status_;
    int raw = 0;
    ::waitpid(pid_, &raw, 0);
    pid_ = -1;
    status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : -WTERMSIG(raw);
    return status_;
  }

private:
  bool read_until(steady::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady::now()).count();
    pollfd readable{from_, POLLIN, 0};
    if (left <= 0 || ::poll(&readable, 1, static_cast<int>(left)) <= 0) return false;
    std::array<char, 4096> bytes{};
    const auto n = ::read(from_, bytes.data(), bytes.size());
    if (n <= 0) return false;
    rest_.append(bytes.data(), static_cast<std::size_t>(n));
    for (auto end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      lines_.push_back(rest_.substr(0, end));
      rest_.erase(0, end + 1);
    }
    return true;
  }

  pid_t pid_ = -1;
  int status_ = 0;
  int to_ = -1;
  int from_ = -1;
  std::string rest_;
  std::vector<std::string> lines_;
};

using children = std::vector<std::unique_ptr<child>>;

std::unique_ptr<child> start_rank(int rank, int size, const std::string& route, const std::string& devices,
                                  std::vector<std::string> before = {}) {
  before.insert(before.end(), {PENSTOCK_ENDPOINT_RANK, std::to_string(rank), std::to_string(size), route, devices});
  return std::make_unique<child>(std::move(before));
}

void introduce(const children& ranks) {
  std::vector<std::string> addresses;
  for (const auto& r : ranks)
    addresses.push_back(r->hear("address "));
  for (const auto& r : ranks) {
    for (const std::string& a : addresses)
      r->tell(a);
  }
}

children start(int size, const std::string& route) {
  children ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(start_rank(rank, size, route, "lo"));
  introduce(ranks);
  for (const auto& r : ranks)
    r->hear("connected ");
  return ranks;
}

void exchange(child& a, int rank_of_a, child& b, int rank_of_b) {
  for (const int bytes : {0, 10, 5'000, 3'000'000}) {
    a.tell("send " + std::to_string(rank_of_b) + " " + std::to_string(bytes));
    b.hear("received " + std::to_string(rank_of_a));
    b.tell("send " + std::to_string(rank_of_a) + " " + std::to_string(bytes));
    a.hear("received " + std::to_string(rank_of_b));
  }
}

void quit(child& rank) {
  rank.tell("quit");
  rank.hear("closed");
  EXPECT_EQ(rank.exit_status(), 0);
}

/// Names of shared memory that outlives processes.
std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    names.insert(file.path().string());
  std::ifstream table("/proc/sysvipc/shm");
  for (std::string key, id; std::getline(table >> key >> id, key);)
    names.insert("sysv " + id);
  return names;
}

class UcxProcesses : public testing::TestWithParam<std::string> {};

TEST_P(UcxProcesses, ExchangeMessages) {
  const auto ranks = start(3, GetParam());
  exchange(*ranks[0], 0, *ranks[1], 1);
  exchange(*ranks[2], 2, *ranks[1], 1);
  for (const auto& r : ranks)
    r->tell("flush 20000");
  for (const auto& r : ranks)
    r->hear("flushed");
  for (const auto& r : ranks)
    quit(*r);
}

TEST_P(UcxProcesses, AKilledOneHoldsNobodyUp) {
  const auto before = shared_memory();
  const auto ranks = start(3, GetParam());
  ranks[0]->tell("flood 2");
  ranks[2]->tell("flood 0");
  ranks[2]->tell("flood 1");
  exchange(*ranks[0], 0, *ranks[1], 1);
  ranks[2]->kill(SIGKILL);
  EXPECT_EQ(ranks[2]->exit_status(), -SIGKILL);
  if (GetParam() == "network") {
    ranks[0]->hear("lost 2", 10s);
    ranks[1]->hear("lost 2", 10s);
  }
  ranks[0]->tell("send 2 100000");
  ranks[0]->tell("flush 500");
  ranks[0]->hear("not flushed ");
  if (GetParam() == "network") exchange(*ranks[0], 0, *ranks[1], 1);
  quit(*ranks[0]);
  quit(*ranks[1]);
  // Other programs come and go, so one look may not do.
  std::vector<std::string> left;
  for (const auto deadline = steady::now() + 10s; steady::now() < deadline; ::poll(nullptr, 0, 50)) {
    const auto after = shared_memory();
    left.clear();
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(left));
    if (left.empty()) break;
  }
  EXPECT_TRUE(left.empty()) << testing::PrintToString(left);
}

TEST_P(UcxProcesses, AStoppedOneIsWaitedForUntilTheDeadline) {
  const auto ranks = start(3, GetParam());
  ranks[1]->kill(SIGSTOP);
  ranks[0]->tell("send 1 50000000");
  exchange(*ranks[0], 0, *ranks[2], 2); // what waits for one peer holds up no other
  ranks[0]->tell("flush 300");
  ranks[0]->hear("not flushed ");
  ranks[1]->kill(SIGCONT);
  ranks[1]->hear("received 0");
  ranks[0]->tell("flush 20000");
  ranks[0]->hear("flushed");
  for (const auto& r : ranks)
    quit(*r);
}

INSTANTIATE_TEST_SUITE_P(Over, UcxProcesses, testing::Values("automatic", "network"),
                         [](const auto& tested) { return tested.param == "network" ? "Network" : "SharedMemory"; });

/// Two network namespaces with a link between them; they go with the object.
class two_hosts {
public:
  two_hosts() : a("pn-a" + std::to_string(::getpid())), b("pn-b" + std::to_string(::getpid())) {
    is_made = run("ip netns add " + a) && run("ip netns add " + b) &&
              run("ip -n " + a + " link add pn-a type veth peer name pn-b netns " + b) &&
              raise(a, "pn-a", "10.77.0.1") && raise(b, "pn-b", "10.77.0.2") && is_up(a, "pn-a") && is_up(b, "pn-b");
  }
  ~two_hosts() {
    run("ip netns del " + a);
    run("ip netns del " + b);
  }
  two_hosts(const two_hosts&) = delete;
  two_hosts& operator=(const two_hosts&) = delete;

  static bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

  const std::string a;
  const std::string b;
  bool is_made = false;

private:
  static bool raise(const std::string& where, const std::string& device, const std::string& address) {
    return run("ip -n " + where + " addr add " + address + "/24 dev " + device) &&
           run("ip -n " + where + " link set " + device + " up") && run("ip -n " + where + " link set lo up");
  }
  /// The kernel takes a moment to call a new link usable.
  static bool is_up(const std::string& where, const std::string& device) {
    const auto deadline = steady::now() + patience;
    while (!run("ip netns exec " + where + " grep -q up /sys/class/net/" + device + "/operstate")) {
      if (steady::now() > deadline) return false;
    }
    return true;
  }
};

TEST(UcxHosts, NeverShareMemoryAndMeetOverTheNamedDevice) {
  const two_hosts hosts;
  if (!hosts.is_made) GTEST_SKIP() << "no right to make network namespaces";
  children ranks;
  ranks.push_back(start_rank(0, 2, "automatic", "pn-a", {"ip", "netns", "exec", hosts.a}));
  ranks.push_back(start_rank(1, 2, "automatic", "pn-b", {"ip", "netns", "exec", hosts.b}));
  introduce(ranks);
  EXPECT_EQ(ranks[0]->hear("connected "), "tcp over pn-a");
  EXPECT_EQ(ranks[1]->hear("connected "), "tcp over pn-b");
  exchange(*ranks[0], 0, *ranks[1], 1);
  ranks[1]->kill(SIGKILL);
  ranks[0]->hear("lost 1", 10s);
  quit(*ranks[0]);
}

TEST(UcxHosts, LoopbackDoesNotReachAnother) {
  const two_hosts hosts;
  if (!hosts.is_made) GTEST_SKIP() << "no right to make network namespaces";
  children ranks;
  ranks.push_back(start_rank(0, 2, "automatic", "lo", {"ip", "netns", "exec", hosts.a}));
  ranks.push_back(start_rank(1, 2, "automatic", "lo", {"ip", "netns", "exec", hosts.b}));
  introduce(ranks);
  EXPECT_NE(ranks[0]->hear("failed ").find("rank 1 is on another host"), std::string::npos);
  EXPECT_NE(ranks[1]->hear("failed ").find("rank 0 is on another host"), std::string::npos);
}

} // namespace

} // namespace penstock::transport
