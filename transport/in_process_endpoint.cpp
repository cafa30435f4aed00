// Endpoints of ranks that are threads of one process.
#include "kernels/check.hpp"
#include "transport/in_process.hpp"
#include "transport/inbox.hpp"
#include "transport/peer_book.hpp"

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>

namespace penstock::transport {

namespace {

class in_process_endpoint;

/// A message under way. The sender may withdraw it; then its bytes are not touched any more.
struct parcel {
  int from;
  channel to;
  std::uint64_t id;
  message content;
  std::mutex mutex; // held while bytes are copied
  bool withdrawn = false;
};

/// What one rank's thread has to do. Others leave parcels and errands; those left after close() are not accepted.
class post_box {
public:
  using errand = std::function<void(in_process_endpoint&)>;
  explicit post_box(std::optional<std::uint64_t> shuffle_seed) {
    if (shuffle_seed) random_.emplace(*shuffle_seed);
  }

  bool leave(std::shared_ptr<parcel> p) { return put(parcels_, std::move(p)); }
  bool leave(errand e) { return put(errands_, std::move(e)); }

  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
    parcels_.clear();
    errands_.clear();
    filled_.notify_one();
  }

  /// Waits for the next thing to do; false once closed. Errands go first.
  bool next(errand& e, std::shared_ptr<parcel>& p) {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !open_ || !errands_.empty() || !parcels_.empty(); });
    // Now and then waits for company, so that there is something to shuffle.
    if (random_ && errands_.empty() && parcels_.size() == 1 && (*random_)() % 2 == 0)
      filled_.wait_for(lock, std::chrono::microseconds(200), [this] { return !open_ || parcels_.size() > 1; });
    if (!open_) return false;
    if (!errands_.empty()) {
      e = std::move(errands_.front());
      errands_.pop_front();
    } else {
      if (random_) std::swap(parcels_.front(), parcels_[(*random_)() % parcels_.size()]);
      p = std::move(parcels_.front());
      parcels_.pop_front();
    }
    return true;
  }

private:
  template <typename T>
  bool put(std::deque<T>& queue, T thing) {
    const std::lock_guard lock(mutex_);
    if (open_) queue.push_back(std::move(thing));
    filled_.notify_one();
    return open_;
  }

  std::mutex mutex_;
  std::condition_variable filled_;
  bool open_ = true;
  std::deque<std::shared_ptr<parcel>> parcels_;
  std::deque<errand> errands_;
  std::optional<std::mt19937_64> random_;
};

using post_boxes = std::vector<std::unique_ptr<post_box>>;

class in_process_endpoint final : public endpoint {
public:
  in_process_endpoint(int rank, std::shared_ptr<post_boxes> boxes)
      : book_(rank, static_cast<int>(boxes->size())), boxes_(std::move(boxes)), thread_([this] { run(); }) {}

  ~in_process_endpoint() override {
    box(rank()).close();
    thread_.join();
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) tell_of_loss(peer, "has closed its connections");
    }
  }

  int rank() const override { return book_.rank(); }
  int size() const override { return book_.size(); }

  void send(int peer, channel to, message m, completion sent) override {
    book_.check_sendable(peer, m);
    const auto p = std::make_shared<parcel>(rank(), to, next_id_.fetch_add(1), std::move(m));
    book_.posted(peer);
    {
      const std::lock_guard lock(mutex_);
      under_way_.emplace(p->id, posting{peer, p, bytes_of(p->content), std::move(sent)});
    }
    if (book_.loss(peer) || !box(peer).leave(p))
      box(rank()).leave([id = p->id](in_process_endpoint& self) { self.settle(id, true); });
  }

  void listen(channel from, std::shared_ptr<receiver> taker) override {
    inbox_.listen(from, std::move(taker));
    box(rank()).leave([from](in_process_endpoint& self) { self.deliver_held(from); });
  }

  void on_failure(failure_handler handler) override {
    book_.on_failure(std::move(handler));
    box(rank()).leave([](in_process_endpoint& self) { self.book_.report(); });
  }

  void flush(std::chrono::milliseconds deadline) override {
    check(std::this_thread::get_id() != thread_.get_id(), "flush() would wait for its own thread");
    book_.wait_until_sent(std::chrono::steady_clock::now() + deadline);
  }

  traffic traffic_with(int peer) const override { return book_.with(peer); }
  std::string route_to(int) const override { return "in process"; }

private:
  struct posting {
    int peer;
    std::shared_ptr<parcel> what;
    std::uint64_t bytes;
    completion sent;
  };

  post_box& box(int of) const { return *(*boxes_)[static_cast<std::size_t>(of)]; }

  void run() {
    post_box::errand todo;
    std::shared_ptr<parcel> incoming;
    while (box(rank()).next(todo, incoming)) {
      if (auto p = std::exchange(incoming, nullptr))
        receive(*p);
      else
        std::exchange(todo, nullptr)(*this);
    }
    drop_all(std::nullopt);
  }

  void receive(parcel& p) {
    if (book_.loss(p.from)) return;
    shielded(p.from, [&] {
      arrival a = inbox_.announce(p.from, p.to, p.content.header, p.content.parts.size());
      for (std::size_t i = 0; i < p.content.parts.size(); ++i) {
        const part& source = p.content.parts[i];
        const part& target = inbox_.place(a, i, source.size);
        const std::lock_guard lock(p.mutex);
        if (p.withdrawn) return;
        if (source.size > 0) std::memcpy(target.data(), source.data(), source.size);
      }
      book_.received(p.from, bytes_of(a.content));
      box(p.from).leave([id = p.id](in_process_endpoint& self) { self.settle(id, false); });
      inbox_.complete(std::move(a));
    });
  }

  void deliver_held(channel from) {
    while (auto held = inbox_.next_held(from))
      shielded(held->peer, [&] { inbox_.hand_over(std::move(*held)); });
  }

  /// What a receiver or a completion throws fails the connection it was called for.
  template <typename F>
  void shielded(int peer, F&& f) {
    try {
      f();
    } catch (...) {
      const std::string what = text_of(std::current_exception());
      tell_of_loss(peer, "has failed on a message: " + what);
      lose(peer, what);
    }
  }

  void tell_of_loss(int peer, const std::string& what) {
    box(peer).leave(
        [me = rank(), what](in_process_endpoint& other) { other.lose(me, "rank " + std::to_string(me) + " " + what); });
  }

  void lose(int peer, const std::string& what) {
    if (!book_.lose(peer, what)) return;
    drop_all(peer);
    book_.report();
  }

  /// Ends a posting; one that has ended is left alone.
  void settle(std::uint64_t id, bool drop) {
    std::unique_lock lock(mutex_);
    const auto node = under_way_.extract(id);
    lock.unlock();
    if (node.empty()) return;
    const posting& done = node.mapped();
    std::exception_ptr why;
    if (drop) {
      const std::lock_guard copying(done.what->mutex);
      done.what->withdrawn = true;
      const std::string text = book_.loss(done.peer).value_or("this rank has closed its connections");
      why = std::make_exception_ptr(
          error("[transport] message to rank " + std::to_string(done.peer) + " dropped: " + text));
    }
    if (!drop) done.what->content.parts.clear(); // the receiver's handle on the parcel may live a little longer
    shielded(done.peer, [&] {
      if (done.sent) done.sent(why);
    });
    if (drop)
      book_.dropped(done.peer, text_of(why));
    else
      book_.sent(done.peer, done.bytes);
  }

  void drop_all(std::optional<int> peer) {
    std::vector<std::uint64_t> ids;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, what] : under_way_) {
        if (!peer || what.peer == *peer) ids.push_back(id);
      }
    }
    for (const std::uint64_t id : ids)
      settle(id, true);
  }

  peer_book book_;
  inbox inbox_;
  const std::shared_ptr<post_boxes> boxes_;
  std::atomic<std::uint64_t> next_id_{0};
  std::mutex mutex_; // under_way_
  std::map<std::uint64_t, posting> under_way_;
  std::thread thread_; // last: it uses the others
};

} // namespace

std::vector<std::unique_ptr<endpoint>> make_in_process_endpoints(int size, std::optional<std::uint64_t> shuffle_seed) {
  auto boxes = std::make_shared<post_boxes>();
  for (int rank = 0; rank < size; ++rank) {
    const auto seed = static_cast<std::uint64_t>(rank) + shuffle_seed.value_or(0);
    boxes->push_back(std::make_unique<post_box>(shuffle_seed ? std::optional(seed) : std::nullopt));
  }
  std::vector<std::unique_ptr<endpoint>> endpoints;
  for (int rank = 0; rank < size; ++rank)
    endpoints.push_back(std::make_unique<in_process_endpoint>(rank, boxes));
  return endpoints;
}

} // namespace penstock::transport
