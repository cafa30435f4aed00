// A rank that is a process of its own, for tests: does what it reads, a line a command, and says what became of it.
#include "kernels/check.hpp"
#include "tests/transport/ucx/hex.hpp"
#include "transport/ucx/ucx.hpp"

#include <cstring>
#include <iostream>
#include <mutex>
#include <sstream>

using namespace penstock;
using namespace penstock::transport;

namespace {

constexpr channel here{41};

void say(const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::cout << line << std::endl;
}

/// Says what came, and whether it is what send() makes.
class teller final : public receiver {
public:
  part place(int, std::string_view, std::size_t, std::size_t bytes) override {
    return {pool_.allocate(bytes, memory_use::scratch), 0, bytes};
  }
  void take(int peer, message m) override {
    if (m.header == "flood") return;
    bool is_whole = m.parts.size() == 1;
    for (std::size_t i = 0; is_whole && i < m.parts[0].size; ++i)
      is_whole = m.parts[0].data()[i] == std::byte{0x2a};
    say((is_whole ? "received " : "spoilt ") + std::to_string(peer));
  }

private:
  memory_pool pool_;
};

class rank_process {
public:
  explicit rank_process(std::unique_ptr<endpoint> e) : data_(std::move(e)) {
    data_->on_failure([](int peer, const std::string& what) { say("lost " + std::to_string(peer) + " " + what); });
    data_->listen(here, std::make_shared<teller>());
  }

  void send(int to, std::size_t bytes) { data_->send(to, here, {"", {filled(bytes)}}); }

  /// Keeps four messages under way until one fails.
  void flood(int to) {
    for (int i = 0; i < 4; ++i)
      flood_on(to, filled(1'000'000));
  }

  void flush(int ms) {
    try {
      data_->flush(std::chrono::milliseconds(ms));
      say("flushed");
    } catch (const error& e) {
      say(std::string("not flushed ") + e.what());
    }
  }

private:
  part filled(std::size_t bytes) {
    part p{pool_.allocate(bytes, memory_use::scratch), 0, bytes};
    if (bytes > 0) std::memset(p.data(), 0x2a, bytes);
    return p;
  }

  void flood_on(int to, const part& p) {
    data_->send(to, here, {"flood", {p}}, [this, to, p](std::exception_ptr why) {
      if (!why) flood_on(to, p);
    });
  }

  memory_pool pool_;
  std::unique_ptr<endpoint> data_;
};

void obey(rank_process& rank) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    long first = 0;
    std::size_t second = 0;
    words >> command >> first >> second;
    if (command == "send") rank.send(static_cast<int>(first), second);
    if (command == "flood") rank.flood(static_cast<int>(first));
    if (command == "flush") rank.flush(static_cast<int>(first));
    if (command == "quit") return;
  }
}

} // namespace

/// endpoint_rank RANK SIZE automatic|network DEVICES
int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    ucx_options o;
    o.rank = std::atoi(argv[1]);
    o.size = std::atoi(argv[2]);
    o.routes = std::string(argv[3]) == "network" ? route_choice::network : route_choice::automatic;
    o.devices = argv[4];
    const auto port = open_ucx(o);
    say("address " + to_hex(port->address()));
    std::vector<std::string> addresses(static_cast<std::size_t>(o.size));
    for (std::string& a : addresses) {
      std::string hex;
      std::getline(std::cin, hex);
      a = from_hex(hex);
    }
    auto data = port->connect(addresses, std::chrono::seconds(20));
    say("connected " + data->route_to(o.rank == 0 ? 1 : 0));
    {
      rank_process rank(std::move(data));
      obey(rank);
    }
    say("closed");
    return 0;
  } catch (const std::exception& e) {
    say(std::string("failed ") + e.what());
    return 1;
  }
}
