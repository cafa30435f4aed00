// A rank that is connected to rank 0.
#include "transport/control/other_rank.hpp"

#include "kernels/check.hpp"
#include "transport/control/clock_estimate.hpp"
#include "transport/control/connect.hpp"
#include "transport/control/network_thread.hpp"
#include "transport/control/seat.hpp"
#include "transport/control/silence_watch.hpp"
#include "transport/control/words.hpp"

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <future>

namespace penstock::transport {

namespace {

using clock = std::chrono::steady_clock;
using boost::system::error_code;

constexpr int questions_at_start = 8; // of rank 0's clock; the best answer counts
constexpr auto question_every = 2s;   // afterwards
constexpr auto answers_bound = 2s;    // for the first ones
constexpr auto welcome_grace = 2s;    // rank 0 knows better who is missing: its word is waited for

std::int64_t now_ns() {
  return std::chrono::nanoseconds(clock::now().time_since_epoch()).count();
}

/// Everything but the constructor, the seat's functions and the destructor is on the network's thread.
class other_rank_control final : public seat {
public:
  other_rank_control(const launch& where, const join_options& options, const hello& own)
      : seat(own.rank, own.size), tls_(make_tls_context(options.secret, tls_side::client)),
        admitted_(connect_to_rank_0(network_.context(), tls_, where, own, options.join_deadline)),
        same_clock_(admitted_.granted.rank_0.host_identity == own.who.host_identity),
        silence_(admitted_.granted.silence), tick_every_(tick_of(silence_)), watch_(silence_),
        timer_(network_.context()) {}

  ~other_rank_control() override {
    network_.finish(
        [this] {
          timer_.cancel();
          admitted_.line->finish();
        },
        flush_bound);
  }

  void join(std::chrono::milliseconds deadline) {
    network_.post([this] { begin(); });
    network_.start([this](const std::string& what) { break_down(what); });
    wait_for_members(deadline + welcome_grace,
                     "rank 0 has not said within " + text_of(deadline) + " that all ranks are there");
    if (!same_clock_) clock_known_.get_future().wait_for(answers_bound);
  }

  std::vector<std::string> ways_out() const override {
    if (admitted_.line->way_out().empty()) return {};
    return {admitted_.line->way_out()};
  }
  std::int64_t clock_offset_ns() const override { return offset_ns_.load(std::memory_order_relaxed); }

private:
  void up(frame f) override {
    // Encoded by the caller: the network's thread has other ranks to hear.
    network_.post([this, bytes = std::make_shared<const std::string>(encode(f))] { admitted_.line->send(bytes); });
  }
  void post(std::function<void()> task) override { network_.post(std::move(task)); }
  bool on_network_thread() const override { return network_.is_this(); }

  void say(const frame& f) { admitted_.line->send(std::make_shared<const std::string>(encode(f))); }

  void begin() {
    watch_.heard(0, clock::now());
    admitted_.line->change({.on_frame = [this](frame f) { hear(std::move(f)); },
                            .on_bytes = [this] { watch_.heard(0, clock::now()); },
                            .on_closed = [this] { lose_rank_0("ended without a word"); },
                            .on_garbage = [this](const std::string& why) { lose_rank_0("sent " + why); }},
                           {frame_kind::welcome, frame_kind::blob, frame_kind::message, frame_kind::pulse,
                            frame_kind::failed, frame_kind::lost, frame_kind::all_left, frame_kind::pong});
    for (auto& f : *admitted_.early)
      hear(std::move(f));
    if (!admitted_.line->is_open()) return lose_rank_0("ended without a word");
    if (!same_clock_) ask_clock();
    tick();
  }

  void hear(frame f) {
    if (f.kind == frame_kind::pulse)
      rank_0_doing_ = one_line(f.payload, max_text_bytes);
    else if (f.kind == frame_kind::pong)
      learn_clock(f);
    else
      take(std::move(f));
  }

  void lose_rank_0(const std::string& how) {
    if (is_over()) return;
    const auto& who = admitted_.granted.rank_0;
    const auto text = "rank 0 (host " + who.host + ", process " + std::to_string(who.process) + ") " + how +
                      (rank_0_doing_.empty() ? "" : "; it was " + rank_0_doing_);
    // A rank 0 that wakes up again shall learn that it was the first cause.
    say({.kind = frame_kind::lost, .rank = 0, .payload = one_line(text, max_text_bytes)});
    end_with({.rank = 0, .lost = true, .text = one_line(text, max_text_bytes)});
  }

  // What is under way here may not go on, so rank 0's answer is not waited for.
  void break_down(const std::string& what) {
    const auto text = "the control plane: " + one_line(what, 300);
    say({.kind = frame_kind::failed, .payload = text});
    end_with({.rank = rank(), .text = "rank " + std::to_string(rank()) + ": " + text});
  }

  void ask_clock() {
    asked_ = clock::now();
    say({.kind = frame_kind::ping, .sent_ns = now_ns()});
  }

  void learn_clock(const frame& answer) {
    clock_.add(answer.sent_ns, answer.answered_ns, now_ns());
    offset_ns_.store(clock_.offset_ns(), std::memory_order_relaxed);
    if (++answers_ < questions_at_start) ask_clock();
    if (answers_ == questions_at_start) clock_known_.set_value();
  }

  void tick() {
    timer_.expires_after(tick_every_);
    timer_.async_wait([this](const error_code& failed) {
      if (!failed) tick();
    });
    const auto now = clock::now();
    if (!watch_.silent(now).empty()) lose_rank_0("has said nothing for " + text_of(silence_));
    pulse(now);
    if (!same_clock_ && answers_ >= questions_at_start && now - asked_ >= question_every) ask_clock();
  }

  // What this rank is doing is told when it changes, so that the last word of a rank that dies is fresh.
  void pulse(clock::time_point now) {
    auto doing = now_doing();
    if (doing == told_ && now - last_pulse_ < silence_ / 10) return;
    last_pulse_ = now;
    told_ = doing;
    say({.kind = frame_kind::pulse, .payload = std::move(doing)});
  }

  network_thread network_; // before what uses its context
  boost::asio::ssl::context tls_;
  admitted_line admitted_;
  const bool same_clock_;
  const std::chrono::milliseconds silence_;
  const std::chrono::milliseconds tick_every_;
  silence_watch watch_;
  boost::asio::steady_timer timer_;
  std::string rank_0_doing_;
  std::string told_;
  clock::time_point last_pulse_{};
  clock::time_point asked_{};
  clock_estimate clock_;
  int answers_ = 0;
  std::promise<void> clock_known_;
  std::atomic<std::int64_t> offset_ns_{0};
};

} // namespace

std::unique_ptr<control_plane> follow_job(const launch& where, const join_options& options, hello own) {
  auto plane = std::make_unique<other_rank_control>(where, options, own);
  plane->join(options.join_deadline);
  return plane;
}

} // namespace penstock::transport
