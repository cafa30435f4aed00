// Round trips: a payload there, an empty answer back.
#include "transport/link_probe.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

namespace penstock::transport {

namespace {

using clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

} // namespace

/// Sends an empty answer for each request, once all of it is here.
class link_probe::echo final : public receiver {
public:
  echo(endpoint& data, channel replies) : data_(data), replies_(replies) {}
  part place(int, std::string_view, std::size_t, std::size_t bytes) override {
    return {pool_.allocate(bytes, memory_use::scratch), 0, bytes};
  }
  void take(int peer, message m) override { data_.send(peer, replies_, {std::move(m.header), {}}); }

private:
  endpoint& data_;
  channel replies_;
  memory_pool pool_;
};

class link_probe::answers final : public receiver {
public:
  part place(int, std::string_view, std::size_t, std::size_t bytes) override {
    throw error("[probe] an answer came with " + std::to_string(bytes) + " bytes, wanted none");
  }
  void take(int peer, message) override {
    const std::lock_guard lock(mutex_);
    last_ = peer;
    came_.notify_one();
  }
  bool wait(int peer, clock::time_point until) {
    std::unique_lock lock(mutex_);
    const bool ok = came_.wait_until(lock, until, [&] { return last_ == peer; });
    last_ = -1;
    return ok;
  }

private:
  std::mutex mutex_;
  std::condition_variable came_;
  int last_ = -1;
};

link_probe::link_probe(endpoint& data, channel base)
    : data_(data), requests_(base), replies_{static_cast<std::uint64_t>(base) + 1},
      answers_(std::make_shared<answers>()) {
  data_.listen(requests_, std::make_shared<echo>(data_, replies_));
  data_.listen(replies_, answers_);
}

link_probe::~link_probe() {
  data_.listen(requests_, nullptr);
  data_.listen(replies_, nullptr);
}

double link_probe::round_trip(int peer, const part& payload, clock::time_point until) {
  const auto begin = clock::now();
  data_.send(peer, requests_, {"probe", {payload}});
  if (!answers_->wait(peer, until))
    throw error("[probe] rank " + std::to_string(peer) + " does not answer over " + data_.route_to(peer));
  return seconds_since(begin);
}

measured_link link_probe::measure(int peer, std::chrono::milliseconds deadline) {
  const auto until = clock::now() + deadline;
  const auto payload = [&](std::size_t bytes) {
    auto storage = pool_.allocate(bytes, memory_use::scratch);
    std::memset(storage.data(), 1, bytes);
    return part{storage, 0, bytes};
  };
  constexpr int warm_ups = 5;
  constexpr int small_rounds = 41;
  constexpr int large_rounds = 5;
  const auto small = payload(64);
  std::vector<double> trips;
  for (int i = 0; i < warm_ups + small_rounds; ++i) {
    const auto seconds = round_trip(peer, small, until);
    if (i >= warm_ups) trips.push_back(seconds);
  }
  const auto latency = median(trips) / 2;
  // Large enough to take 30 ms and to outlast what a shaped link lets through at once, or 16 MB.
  std::size_t bytes = std::size_t{1} << 20;
  auto block = payload(bytes);
  while (round_trip(peer, block, until) < 0.03 && bytes < (std::size_t{16} << 20))
    block = payload(bytes *= 2);
  std::vector<double> rates;
  for (int i = 0; i < large_rounds; ++i)
    rates.push_back(static_cast<double>(bytes) / std::max(1e-9, round_trip(peer, block, until) - 2 * latency));
  return {latency, median(rates)};
}

} // namespace penstock::transport
