// What our endpoint costs over UCX itself: two processes, both ways of moving bytes in turn, each with the settings of
// the other. Prints medians of rounds. `bench_transport [rounds = 5] [shared or network = both]`
#include "kernels/check.hpp"
#include "tools/rank_pair.hpp"

#include <atomic>
#include <cstring>
#include <future>

using namespace penstock;
using namespace penstock::transport;
using steady = std::chrono::steady_clock;

namespace {

constexpr channel to_other{1};

/// What both parts of an experiment over our endpoint need: a buffer to send from, memory to receive into, an end.
class side : public receiver {
public:
  /// `pool` lasts for all rounds, as that of a stage does.
  side(endpoint& data, memory_pool& pool, std::size_t bytes)
      : data_(data), pool_(pool), outgoing_(pool.allocate(bytes, memory_use::scratch)) {
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
  memory_pool& pool_;
  buffer outgoing_;
  std::promise<double> result_;
};

/// Sends and waits for the echo, on the network's thread.
class pinger final : public side {
public:
  pinger(endpoint& data, memory_pool& pool, const experiment& e) : side(data, pool, e.bytes), what_(e) {}
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
  echo(endpoint& data, memory_pool& pool, const experiment& e) : side(data, pool, e.bytes), what_(e) {}
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
  stream_source(endpoint& data, memory_pool& pool, const experiment& e) : side(data, pool, e.bytes), what_(e) {}
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
  stream_sink(endpoint& data, memory_pool& pool, const experiment& e) : side(data, pool, e.bytes), what_(e) {}
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
double run_side(endpoint& data, memory_pool& pool, const experiment& e, pair_line& line) {
  const auto mine = std::make_shared<Side>(data, pool, e);
  data.listen(to_other, mine);
  line.meet();
  mine->begin();
  const double seconds = mine->result();
  data.flush(std::chrono::seconds(30));
  data.listen(to_other, nullptr);
  line.meet();
  return seconds;
}

moving over_endpoint(endpoint& data, pair_line& line) {
  return [&data, &line, pool = std::make_shared<memory_pool>()](const experiment& e) {
    const bool is_first = data.rank() == 0;
    if (e.is_stream)
      return is_first ? run_side<stream_source>(data, *pool, e, line) : run_side<stream_sink>(data, *pool, e, line);
    return is_first ? run_side<pinger>(data, *pool, e, line) : run_side<echo>(data, *pool, e, line);
  };
}

} // namespace

int main(int argc, char** argv) {
  return compare_with_bare_ucx(argc, argv, over_endpoint);
}
