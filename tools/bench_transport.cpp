// What our endpoint costs over UCX itself: two processes, both ways of moving bytes in turn, each with the settings of
// the other. Prints medians of rounds. `bench_transport [rounds]`
#include "kernels/check.hpp"
#include "tools/bare_ucx.hpp"
#include "transport/ucx/ucx.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace penstock;
using namespace penstock::transport;
using steady = std::chrono::steady_clock;

namespace {

constexpr channel to_other{1};
constexpr int in_flight = 8;
constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

struct experiment {
  bool is_stream;
  std::size_t bytes;
  int count; // messages a round
};
constexpr std::array experiments{experiment{false, 4 * kib, 400},  experiment{false, 64 * kib, 200},
                                 experiment{false, mib, 60},       experiment{false, 4 * mib, 24},
                                 experiment{false, 16 * mib, 10},  experiment{true, 64 * kib, 800},
                                 experiment{true, 256 * kib, 300}, experiment{true, mib, 100}};

double seconds_since(steady::time_point start) {
  return std::chrono::duration<double>(steady::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// The two processes' line to each other, for addresses and for starting together.
class pair_line {
public:
  explicit pair_line(int descriptor) : descriptor_(descriptor) {}
  ~pair_line() { ::close(descriptor_); }
  pair_line(const pair_line&) = delete;
  pair_line& operator=(const pair_line&) = delete;

  std::string exchange(const std::string& mine) {
    const auto size = static_cast<std::uint32_t>(mine.size());
    transfer(::write, const_cast<std::uint32_t*>(&size), sizeof size);
    transfer(::write, const_cast<char*>(mine.data()), mine.size());
    std::uint32_t other_size = 0;
    transfer(::read, &other_size, sizeof other_size);
    std::string other(other_size, '\0');
    transfer(::read, other.data(), other.size());
    return other;
  }
  void meet() { exchange("here"); }

private:
  template <typename Call>
  void transfer(Call call, void* bytes, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
      const auto n = call(descriptor_, static_cast<char*>(bytes) + done, size - done);
      if (n <= 0) throw error("the other process is gone");
      done += static_cast<std::size_t>(n);
    }
  }
  int descriptor_;
};

/// What both parts of an experiment over our endpoint need: a buffer to send from, memory to receive into, an end.
class side : public receiver {
public:
  side(endpoint& data, std::size_t bytes) : data_(data), outgoing_(pool_.allocate(bytes, memory_use::scratch)) {
    std::memset(outgoing_.data(), 1, bytes);
  }
  part place(int, std::string_view, std::size_t, std::size_t bytes) override {
    return {pool_.allocate(bytes, memory_use::scratch), 0, bytes};
  }
  double result() {
    auto outcome = result_.get_future();
    if (outcome.wait_for(std::chrono::seconds(30)) != std::future_status::ready)
      throw error("our endpoint has not finished within 30 s");
    return outcome.get();
  }

protected:
  void send(std::size_t bytes, endpoint::completion sent = {}) {
    data_.send(1 - data_.rank(), to_other, {"", {{outgoing_, 0, bytes}}}, std::move(sent));
  }
  void finish(double seconds) { result_.set_value(seconds); }

private:
  endpoint& data_;
  memory_pool pool_;
  buffer outgoing_;
  std::promise<double> result_;
};

/// Sends and waits for the echo, on the network's thread.
class pinger final : public side {
public:
  pinger(endpoint& data, const experiment& e) : side(data, e.bytes), what_(e) {}
  void begin() { ping(); }
  void take(int, message) override {
    times_.push_back(seconds_since(start_) / 2);
    if (static_cast<int>(times_.size()) < what_.count)
      ping();
    else
      finish(median(times_));
  }

private:
  void ping() {
    start_ = steady::now();
    send(what_.bytes);
  }
  const experiment what_;
  steady::time_point start_;
  std::vector<double> times_;
};

class echo final : public side {
public:
  echo(endpoint& data, const experiment& e) : side(data, e.bytes), what_(e) {}
  void begin() {}
  void take(int, message) override {
    send(what_.bytes);
    if (++received_ == what_.count) finish(0);
  }

private:
  const experiment what_;
  int received_ = 0;
};

/// Keeps eight messages under way.
class stream_source final : public side {
public:
  stream_source(endpoint& data, const experiment& e) : side(data, e.bytes), what_(e) {}
  void begin() {
    start_ = steady::now();
    for (int i = 0; i < in_flight; ++i)
      post();
  }
  void take(int, message) override { finish(seconds_since(start_) / what_.count); }

private:
  void post() { // first by the caller, then only by completions
    if (posted_.fetch_add(1) < what_.count) send(what_.bytes, [this](std::exception_ptr) { post(); });
  }
  const experiment what_;
  steady::time_point start_;
  std::atomic<int> posted_{0};
};

class stream_sink final : public side {
public:
  stream_sink(endpoint& data, const experiment& e) : side(data, e.bytes), what_(e) {}
  void begin() {}
  void take(int, message) override {
    if (++received_ < what_.count) return;
    send(0);
    finish(0);
  }

private:
  const experiment what_;
  int received_ = 0;
};

template <typename Side>
double run_side(endpoint& data, const experiment& e, pair_line& line) {
  const auto mine = std::make_shared<Side>(data, e);
  data.listen(to_other, mine);
  line.meet();
  mine->begin();
  const double seconds = mine->result();
  data.flush(std::chrono::seconds(30));
  data.listen(to_other, nullptr);
  line.meet();
  return seconds;
}

double run_ours(endpoint& data, const experiment& e, pair_line& line) {
  if (e.is_stream)
    return data.rank() == 0 ? run_side<stream_source>(data, e, line) : run_side<stream_sink>(data, e, line);
  return data.rank() == 0 ? run_side<pinger>(data, e, line) : run_side<echo>(data, e, line);
}

double run_bare(bare_ucx& bare, const experiment& e, int rank, pair_line& line) {
  line.meet();
  const double seconds =
      e.is_stream ? bare.stream(e.bytes, e.count, in_flight, rank == 0) : bare.ping_pong(e.bytes, e.count, rank == 0);
  line.meet();
  return seconds;
}

void run_rank(int rank, pair_line& line, ucx_kind kind, int rounds) {
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

  if (rank == 0)
    std::printf("\n%s\n  %-22s %12s %12s %8s\n", data->route_to(1).c_str(), "", "bare UCX", "ours", "ratio");
  for (const experiment& e : experiments) {
    std::vector<double> bare_times, our_times;
    for (int round = 0; round < rounds; ++round) {
      bare_times.push_back(run_bare(bare, e, rank, line));
      our_times.push_back(run_ours(*data, e, line));
    }
    if (rank != 0) continue;
    const double b = median(bare_times);
    const double o = median(our_times);
    std::printf("  %-10s %8zu KiB %9.1f us %9.1f us %8.2f   %.2f GB/s against %.2f\n",
                e.is_stream ? "stream" : "ping-pong", e.bytes / kib, 1e6 * b, 1e6 * o, b / o,
                1e-9 * static_cast<double>(e.bytes) / o, 1e-9 * static_cast<double>(e.bytes) / b);
    std::fflush(stdout);
  }
}

/// Both ranks as children, so that neither inherits UCX's state from the other.
bool run_pair(ucx_kind kind, int rounds) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) throw error("cannot make a socket pair");
  std::fflush(stdout);
  std::array<pid_t, 2> children{};
  for (int rank = 0; rank < 2; ++rank) {
    children[static_cast<std::size_t>(rank)] = ::fork();
    if (children[static_cast<std::size_t>(rank)] != 0) continue;
    ::close(ends[static_cast<std::size_t>(1 - rank)]);
    int outcome = 0;
    try {
      pair_line line(ends[static_cast<std::size_t>(rank)]);
      run_rank(rank, line, kind, rounds);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
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

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  try {
    const bool shared = run_pair(ucx_kind::shared_memory, rounds);
    return run_pair(ucx_kind::network, rounds) && shared ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
