// Rank 0 of a job of several processes.
#include "transport/control/rank_0.hpp"

#include "kernels/check.hpp"
#include "transport/control/door.hpp"
#include "transport/control/hub.hpp"
#include "transport/control/listener.hpp"
#include "transport/control/log_limiter.hpp"
#include "transport/control/network_thread.hpp"
#include "transport/control/seat.hpp"
#include "transport/control/words.hpp"

#include <algorithm>
#include <future>
#include <map>
#include <mutex>

namespace penstock::transport {

namespace {

using clock = std::chrono::steady_clock;
using boost::system::error_code;

// Ranks that come after the job has failed at its start are still told why, so long.
constexpr auto linger_bound = std::chrono::seconds(2);

/// Everything but the constructor, the seat's functions and the destructor is on the network's thread.
class rank_0_control final : public seat {
public:
  rank_0_control(const launch& where, const join_options& options, hello own)
      : seat(0, own.size), tls_(make_tls_context(options.secret, tls_side::server)), log_(options.log),
        began_(clock::now()), join_deadline_(options.join_deadline), tick_every_(tick_of(options.silence)),
        hub_({.silence = options.silence, .join_deadline = options.join_deadline}, std::move(own), began_,
             [this](const std::vector<int>& to, const frame& f) { send_down(to, f); }),
        listener_(
            network_.context(), open_door(network_.context(), where), tls_, options.visitor_patience,
            [this](const std::shared_ptr<link>& line, const frame& hello) { return greet(line, hello); },
            [this](const std::string& address, const std::string& why) { report(address, why); }),
        timer_(network_.context()) {}

  ~rank_0_control() override {
    network_.finish([this] { close_all(); }, flush_bound);
  }

  void join() {
    network_.post([this] {
      listener_.start();
      hub_.seated(0);
      tick();
    });
    network_.start([this](const std::string& what) {
      hub_.take(0, {.kind = frame_kind::failed, .payload = "the control plane: " + one_line(what, 300)}, clock::now());
    });
    try {
      // The hub gives up at the deadline and names who is missing; this wait is longer than that.
      wait_for_members(join_deadline_ + linger_bound, "the network's thread does not answer");
    } catch (const error&) {
      all_met_.get_future().wait_until(std::min(clock::now() + linger_bound, began_ + join_deadline_));
      throw;
    }
  }

  std::vector<std::string> ways_out() const override {
    const std::lock_guard held(ways_mutex_);
    return ways_out_;
  }

private:
  void up(frame f) override {
    network_.post([this, f = std::move(f)]() mutable { hub_.take(0, std::move(f), clock::now()); });
  }
  void post(std::function<void()> task) override { network_.post(std::move(task)); }
  bool on_network_thread() const override { return network_.is_this(); }

  void send_down(const std::vector<int>& to, const frame& f) {
    std::shared_ptr<const std::string> bytes;
    for (const int rank : to) {
      if (rank == 0) continue;
      if (!bytes) bytes = std::make_shared<const std::string>(encode(f));
      if (const auto line = lines_.find(rank); line != lines_.end()) line->second->send(bytes);
    }
    if (std::ranges::find(to, 0) != to.end()) take(f); // last: its handlers may take a moment
  }

  bool greet(const std::shared_ptr<link>& line, const frame& greeting) {
    const auto said = decode_hello(greeting.payload);
    const auto answer = hub_.meet(said, clock::now());
    if (answer.admitted)
      seat_rank(said.rank, line, answer.reply);
    else
      listener_.dismiss(line, answer.reply);
    if (hub_.all_met() && !std::exchange(met_, true)) all_met_.set_value();
    return answer.admitted;
  }

  void seat_rank(int rank, const std::shared_ptr<link>& line, const frame& reply) {
    line->change({.on_frame = [this, rank](frame f) { hub_.take(rank, std::move(f), clock::now()); },
                  .on_bytes = [this, rank] { hub_.heard(rank, clock::now()); },
                  .on_closed = [this, rank] { hub_.closed(rank, clock::now()); },
                  .on_garbage =
                      [this, rank, line](const std::string& why) {
                        log_.write("[control] rank " + std::to_string(rank) + " at " + line->address() + " sent " + why,
                                   clock::now());
                        hub_.broken(rank, why);
                      }},
                 {frame_kind::blob, frame_kind::message, frame_kind::pulse, frame_kind::failed, frame_kind::lost,
                  frame_kind::suspect, frame_kind::leave, frame_kind::ping});
    lines_.emplace(rank, line);
    if (const auto& way = line->way_out(); !way.empty()) {
      const std::lock_guard held(ways_mutex_);
      if (std::ranges::find(ways_out_, way) == ways_out_.end()) ways_out_.push_back(way);
    }
    line->send(std::make_shared<const std::string>(encode(reply)));
    hub_.seated(rank);
  }

  void report(const std::string& address, const std::string& why) {
    const auto line = "turned away " + address + ": " + one_line(why, 300);
    hub_.turned_away(address + ": " + one_line(why, 300));
    log_.write("[control] " + line, clock::now());
  }

  void tick() {
    timer_.expires_after(tick_every_);
    timer_.async_wait([this](const error_code& failed) {
      if (!failed) tick();
    });
    const auto now = clock::now();
    hub_.take(0, {.kind = frame_kind::pulse, .payload = now_doing()}, now);
    hub_.tick(now);
    log_.look(now);
  }

  void close_all() {
    timer_.cancel();
    listener_.stop();
    for (const auto& [rank, line] : lines_)
      line->finish();
  }

  network_thread network_; // before what uses its context
  boost::asio::ssl::context tls_;
  log_limiter log_;
  const clock::time_point began_;
  const std::chrono::milliseconds join_deadline_;
  const std::chrono::milliseconds tick_every_;
  hub hub_;
  listener listener_;
  boost::asio::steady_timer timer_;
  std::map<int, std::shared_ptr<link>> lines_;
  mutable std::mutex ways_mutex_;
  std::vector<std::string> ways_out_;
  bool met_ = false;
  std::promise<void> all_met_;
};

} // namespace

std::unique_ptr<control_plane> lead_job(const launch& where, const join_options& options, hello own) {
  auto plane = std::make_unique<rank_0_control>(where, options, std::move(own));
  plane->join();
  return plane;
}

} // namespace penstock::transport
