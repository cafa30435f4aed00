// Forks the two ranks, and runs the experiments.
#include "tools/rank_pair.hpp"

#include "kernels/check.hpp"
#include "transport/ucx/ucx.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace penstock;
using namespace penstock::transport;
using steady = std::chrono::steady_clock;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::array experiments{experiment{false, 4 * kib, 400},  experiment{false, 64 * kib, 200},
                                 experiment{false, mib, 60},       experiment{false, 4 * mib, 24},
                                 experiment{false, 16 * mib, 10},  experiment{true, 64 * kib, 800},
                                 experiment{true, 256 * kib, 300}, experiment{true, mib, 100}};

template <typename Call>
void transfer(Call call, int descriptor, void* bytes, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const auto n = call(descriptor, static_cast<char*>(bytes) + done, size - done);
    if (n <= 0) throw error("the other process is gone");
    done += static_cast<std::size_t>(n);
  }
}

double run_bare(bare_ucx& bare, const experiment& e, int rank, pair_line& line) {
  line.meet();
  const double seconds =
      e.is_stream ? bare.stream(e.bytes, e.count, in_flight, rank == 0) : bare.ping_pong(e.bytes, e.count, rank == 0);
  line.meet();
  return seconds;
}

void print(const experiment& e, double bare, double ours) {
  const auto bandwidth = [&e](double seconds) { return 1e-9 * static_cast<double>(e.bytes) / seconds; };
  std::printf("  %-10s %8zu KiB %9.1f us %9.1f us %8.2f   %.2f GB/s against %.2f\n",
              e.is_stream ? "stream" : "ping-pong", e.bytes / kib, 1e6 * bare, 1e6 * ours, bare / ours, bandwidth(ours),
              bandwidth(bare));
  std::fflush(stdout);
}

void run_rank(int rank, pair_line& line, ucx_kind kind, int rounds, const moving_over& make_ours) {
  ucx_options options;
  options.rank = rank;
  options.size = 2;
  options.routes = kind == ucx_kind::network ? route_choice::network : route_choice::shared_memory;
  const auto port = open_ucx(options);
  bare_ucx bare(kind);
  const std::string mine = port->address();
  const std::string other = line.exchange(mine);
  const auto data =
      port->connect(rank == 0 ? std::vector{mine, other} : std::vector{other, mine}, std::chrono::seconds(10));
  bare.connect(line.exchange(bare.address()));
  run_bare(bare, {false, 8, 10}, rank, line); // wires up
  const moving ours = make_ours(*data, line);

  if (rank == 0)
    std::printf("\n%s\n  %-22s %12s %12s %8s\n", data->route_to(1).c_str(), "", "bare UCX", "ours", "ratio");
  for (const experiment& e : experiments) {
    std::vector<double> bare_times, our_times;
    for (int round = 0; round < rounds; ++round) {
      if (round % 2 == 1) our_times.push_back(ours(e)); // each goes first in every other round
      bare_times.push_back(run_bare(bare, e, rank, line));
      if (round % 2 == 0) our_times.push_back(ours(e));
    }
    if (rank == 0) print(e, median(bare_times), median(our_times));
  }
}

/// Both ranks as children, so that neither inherits UCX's state from the other.
bool run_pair(ucx_kind kind, int rounds, const moving_over& ours) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) throw error("cannot make a socket pair");
  std::fflush(stdout);
  std::array<pid_t, 2> children{};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    children[rank] = ::fork();
    if (children[rank] != 0) continue;
    ::close(ends[1 - rank]);
    int outcome = 0;
    try {
      pair_line line(ends[rank]);
      run_rank(static_cast<int>(rank), line, kind, rounds, ours);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %zu: %s\n", rank, e.what());
      outcome = 1;
    }
    std::fflush(stdout);
    ::_exit(outcome);
  }
  ::close(ends[0]);
  ::close(ends[1]);
  bool is_well = true;
  for (const pid_t child : children) {
    int status = 0;
    is_well = ::waitpid(child, &status, 0) == child && status == 0 && is_well;
  }
  return is_well;
}

} // namespace

double seconds_since(steady::time_point start) {
  return std::chrono::duration<double>(steady::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

pair_line::pair_line(int descriptor) : descriptor_(descriptor) {
  const timeval patience{60, 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

pair_line::~pair_line() {
  ::close(descriptor_);
}

std::string pair_line::exchange(const std::string& mine) {
  auto size = static_cast<std::uint32_t>(mine.size());
  transfer(::write, descriptor_, &size, sizeof size);
  transfer(::write, descriptor_, const_cast<char*>(mine.data()), mine.size());
  transfer(::read, descriptor_, &size, sizeof size);
  std::string other(size, '\0');
  transfer(::read, descriptor_, other.data(), other.size());
  return other;
}

int compare_with_bare_ucx(int argc, char** argv, const moving_over& ours) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  const std::string only = argc > 2 ? argv[2] : "";
  try {
    bool is_well = true;
    if (only != "network") is_well = run_pair(ucx_kind::shared_memory, rounds, ours);
    if (only != "shared") is_well = run_pair(ucx_kind::network, rounds, ours) && is_well;
    return is_well ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
