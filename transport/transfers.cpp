// Blocking transfers between two ranks, in the order sent.
#include "kernels/check.hpp"
#include "transport/collectives.hpp"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace penstock::transport {

namespace {

// Stands before the user's header: messages may overtake each other, so each has its number.
using sequence_number = std::uint64_t;

std::size_t size_of(const message& m) {
  std::size_t bytes = m.header.size();
  for (const part& p : m.parts)
    bytes += p.size;
  return bytes;
}

std::string within(std::chrono::milliseconds deadline) {
  return " within " + std::to_string(deadline.count()) + " ms";
}

/// What has come from one rank. Its channel is listened to only during receive(): what comes at other times is held by
/// the endpoint, so that its parts can come from the caller's pool.
class numbered_messages final : public receiver {
public:
  part place(int, std::string_view, std::size_t, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    return {(pool_ != nullptr ? *pool_ : spare_).allocate(bytes, memory_use::scratch), 0, bytes};
  }

  void take(int peer, message m) override {
    sequence_number number = 0;
    if (m.header.size() < sizeof number)
      throw error("[transport.transfers] rank " + std::to_string(peer) + " sends a message without its number");
    std::memcpy(&number, m.header.data(), sizeof number);
    m.header.erase(0, sizeof number);
    const std::lock_guard lock(mutex_);
    messages_.emplace(number, std::move(m));
    came_.notify_one();
  }

  /// From now on parts come from `pool`; null: from one of its own, since the caller's may go.
  void place_in(memory_pool* pool) {
    const std::lock_guard lock(mutex_);
    pool_ = pool;
  }

  void cancel(const std::string& why) {
    const std::lock_guard lock(mutex_);
    cancelled_ = why;
    came_.notify_one();
  }

  /// The next message in order, or nothing within the deadline. Throws penstock::error when it is cancelled.
  std::optional<message> next(std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, deadline, [&] { return cancelled_ || messages_.contains(next_); })) return std::nullopt;
    if (cancelled_) throw error(*cancelled_);
    return std::move(messages_.extract(next_++).mapped());
  }

private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::map<sequence_number, message> messages_;
  sequence_number next_ = 0;
  std::optional<std::string> cancelled_;
  memory_pool* pool_ = nullptr;
  memory_pool spare_;
};

/// The end of one send, of which the network's thread may speak after send() has given up. The first word counts.
class sending {
public:
  void end(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
    failure_ = std::move(failure);
    ended_.notify_one();
  }

  /// False when it has not ended within the deadline. Throws what it ended with.
  bool wait(std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    if (!ended_.wait_for(lock, deadline, [&] { return is_over_; })) return false;
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::exception_ptr failure_;
};

/// One rank's messages go to one box and one pool for as long as this lives.
class listening {
public:
  listening(endpoint& data, channel from, std::shared_ptr<numbered_messages> box, memory_pool& pool)
      : data_(data), from_(from), box_(std::move(box)) {
    box_->place_in(&pool);
    data_.listen(from_, box_);
  }
  ~listening() {
    data_.listen(from_, nullptr);
    box_->place_in(nullptr);
  }
  listening(const listening&) = delete;
  listening& operator=(const listening&) = delete;

private:
  endpoint& data_;
  const channel from_;
  const std::shared_ptr<numbered_messages> box_;
};

} // namespace

struct transfers::implementation {
  implementation(endpoint& e, channel b) : data(e), base(b) {}

  channel from(int rank) const { return channel{static_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(rank)}; }

  /// Makes a wait known to cancel(), or throws when that has been called.
  void announce(std::shared_ptr<numbered_messages> box, std::shared_ptr<sending> s) {
    const std::lock_guard lock(mutex);
    if (cancelled) throw error(*cancelled);
    receiving = std::move(box);
    under_way = std::move(s);
  }

  endpoint& data;
  const channel base;
  std::map<int, sequence_number> sent;                        // by receiver
  std::map<int, std::shared_ptr<numbered_messages>> received; // by sender

  std::mutex mutex; // guards what follows, for cancel()
  std::optional<std::string> cancelled;
  std::shared_ptr<numbered_messages> receiving;
  std::shared_ptr<sending> under_way;
};

transfers::transfers(endpoint& data, channel base) : self_(std::make_shared<implementation>(data, base)) {}

transfers::~transfers() = default;

void transfers::send(int to, message m, std::chrono::milliseconds deadline) {
  const std::size_t bytes = size_of(m);
  const sequence_number number = self_->sent[to];
  m.header.insert(0, reinterpret_cast<const char*>(&number), sizeof number);
  const auto state = std::make_shared<sending>();
  self_->announce(nullptr, state);
  self_->data.send(to, self_->from(self_->data.rank()), std::move(m),
                   [state](std::exception_ptr why) { state->end(std::move(why)); });
  ++self_->sent[to];
  if (!state->wait(deadline))
    throw error("[transport.transfers] rank " + std::to_string(to) + " has not taken " + std::to_string(bytes) +
                " bytes" + within(deadline));
}

message transfers::receive(int from, memory_pool& pool, std::chrono::milliseconds deadline) {
  auto& box = self_->received[from];
  if (!box) box = std::make_shared<numbered_messages>();
  self_->announce(box, nullptr);
  const listening now(self_->data, self_->from(from), box, pool);
  auto m = box->next(deadline);
  if (!m) throw error("[transport.transfers] rank " + std::to_string(from) + " has sent nothing" + within(deadline));
  return std::move(*m);
}

void transfers::cancel(const std::string& why) {
  const std::lock_guard lock(self_->mutex);
  self_->cancelled = why;
  if (self_->receiving) self_->receiving->cancel(why);
  if (self_->under_way) self_->under_way->end(std::make_exception_ptr(error(why)));
}

} // namespace penstock::transport
