// Makes endpoints of every kind for tests.
#include "tests/transport/endpoint_kinds.hpp"

#include "transport/in_process.hpp"

#include <cstring>
#include <future>
#include <ostream>

namespace penstock::transport {

endpoints connect_over_ucx(int size, const std::function<void(ucx_options&)>& adjust) {
  std::vector<std::unique_ptr<ucx_port>> ports;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < size; ++rank) {
    ucx_options options;
    options.rank = rank;
    options.size = size;
    options.token.fill(std::byte{0x5a});
    adjust(options);
    ports.push_back(open_ucx(options));
    addresses.push_back(ports.back()->address());
  }
  std::vector<std::future<std::unique_ptr<endpoint>>> connecting;
  for (auto& port : ports)
    connecting.push_back(std::async(std::launch::async, [&] { return port->connect(addresses, patience); }));
  endpoints connected;
  for (auto& c : connecting)
    connected.push_back(c.get());
  return connected;
}

const std::vector<endpoint_kind>& endpoint_kinds() {
  static const std::vector<endpoint_kind> kinds{
      {"InProcess", false, true, [](int size) { return make_in_process_endpoints(size); }},
      {"InProcessShuffled", false, true, [](int size) { return make_in_process_endpoints(size, 7); }},
      {"UcxSharedMemory", true, false,
       [](int size) { return connect_over_ucx(size, [](ucx_options& o) { o.routes = route_choice::shared_memory; }); }},
      {"UcxNetwork", true, true,
       [](int size) { return connect_over_ucx(size, [](ucx_options& o) { o.routes = route_choice::network; }); }}};
  return kinds;
}

void PrintTo(const endpoint_kind& kind, std::ostream* to) {
  *to << kind.name;
}

part mailbox::place(int, std::string_view, std::size_t, std::size_t bytes) {
  return {pool_.allocate(bytes, memory_use::scratch), 0, bytes};
}

void mailbox::take(int peer, message m) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({peer, std::move(m)});
  filled_.notify_all();
}

received mailbox::next() {
  std::unique_lock lock(mutex_);
  if (!filled_.wait_for(lock, patience, [this] { return !waiting_.empty(); })) {
    ADD_FAILURE() << "no message came";
    return {};
  }
  received first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

std::size_t mailbox::count() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

std::shared_ptr<mailbox> open_mailbox(endpoint& at, channel from) {
  auto opened = std::make_shared<mailbox>();
  at.listen(from, opened);
  return opened;
}

namespace {

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> made(bytes);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& b : made) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return made;
}

} // namespace

part patterned(std::size_t bytes, unsigned seed) {
  static memory_pool pool;
  part p{pool.allocate(bytes + 3, memory_use::scratch), 3, bytes}; // off the alignment of the buffer
  const auto content = pattern(bytes, seed);
  if (bytes > 0) std::memcpy(p.data(), content.data(), bytes);
  return p;
}

bool has_pattern(const part& p, std::size_t bytes, unsigned seed) {
  return p.size == bytes && (bytes == 0 || std::memcmp(p.data(), pattern(bytes, seed).data(), bytes) == 0);
}

void signal::notify() {
  const std::lock_guard lock(mutex_);
  --missing_;
  changed_.notify_all();
}

bool signal::wait(std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, within, [this] { return missing_ <= 0; });
}

} // namespace penstock::transport
