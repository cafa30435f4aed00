// Visitors come through the listener; the one with a request sits at the desk until it is answered.
#include "transport/control/request_port.hpp"

#include "kernels/check.hpp"
#include "transport/control/door.hpp"
#include "transport/control/listener.hpp"
#include "transport/control/log_limiter.hpp"
#include "transport/control/network_thread.hpp"
#include "transport/control/words.hpp"

#include <atomic>

namespace penstock::transport {

namespace {

using clock = std::chrono::steady_clock;
using boost::system::error_code;

constexpr const char* run_is_over = "the run has ended";

std::shared_ptr<const std::string> bytes_of(const frame& f) {
  return std::make_shared<const std::string>(encode(f));
}

} // namespace

/// Everything but the constructor, start(), stop(), address() and answering is on the port's thread.
class request_port::desk : public std::enable_shared_from_this<desk> {
public:
  desk(const launch& where, request_port_options options, handler handle)
      : options_(std::move(options)), handle_(std::move(handle)),
        tls_(make_tls_context(options_.secret, tls_side::server)), log_(options_.log), timer_(network_.context()) {
    auto door = open_door(network_.context(), where);
    address_ = text_of(door.local_endpoint());
    listener_ = std::make_unique<listener>(
        network_.context(), std::move(door), tls_, options_.patience,
        [this](const std::shared_ptr<link>& line, const frame& hello) { return greet(line, hello); },
        [this](const std::string& who, const std::string& why) { report(who, why); });
  }

  void start() {
    network_.post([this] {
      listener_->start();
      tick();
    });
    network_.start([this](const std::string& what) { log_.write("[control] " + one_line(what, 300), clock::now()); });
  }

  void stop() {
    network_.finish([this] { close_all(); }, flush_bound);
  }

  const std::string& address() const { return address_; }

private:
  /// Who is at the desk, from its greeting until it has its answer.
  struct visit {
    std::shared_ptr<link> line; ///< null: it is gone
    std::string address;
    clock::time_point since = clock::now();
    bool has_asked = false;
  };
  /// An answer on its way to somebody who must then leave.
  struct leaving {
    std::weak_ptr<link> line;
    clock::time_point since;
  };

  bool greet(const std::shared_ptr<link>& line, const frame& hello) {
    std::string refusal;
    if (hello.payload != request_greeting)
      refusal = "this is the control port of a run, which takes the requests of `penstock replan` of this version";
    else if (current_)
      refusal = "another request, of " + current_->address + ", has no answer yet";
    if (!refusal.empty()) {
      listener_->dismiss(line, {.kind = frame_kind::refused, .payload = refusal});
      return false;
    }
    const auto here = std::make_shared<visit>();
    here->line = line;
    here->address = line->address();
    current_ = here;
    line->change({.on_frame = [this, here](const frame& f) { take(here, f); },
                  .on_closed = [this, here] { gone(here, "it left before it asked for anything"); },
                  .on_garbage = [this, here](const std::string& why) { gone(here, why); }},
                 {frame_kind::message});
    return true;
  }

  void take(const std::shared_ptr<visit>& here, const frame& f) {
    if (here->has_asked) throw error("a second request");
    here->has_asked = true;
    const responder respond = [desk = weak_from_this(), here](const request_answer& answer) {
      if (const auto still = desk.lock())
        still->network_.post([desk, here, answer] {
          if (const auto open = desk.lock()) open->reply(here, answer);
        });
    };
    if (f.payload.size() > most_request_bytes) return respond({false, "the request is too large"});
    try {
      handle_({f.name, f.payload}, respond);
    } catch (const std::exception& e) {
      respond({false, e.what()});
    }
  }

  void reply(const std::shared_ptr<visit>& here, const request_answer& answer) {
    if (current_ != here) return; // it has had an answer
    current_ = nullptr;
    if (!here->line) return;
    here->line->send(bytes_of({.kind = frame_kind::message,
                               .name = answer.is_granted ? "granted" : "refused",
                               .payload = one_line(answer.line, max_text_bytes)}));
    here->line->finish();
    leaving_.push_back({here->line, clock::now()});
  }

  // What was asked for stands: it may be under way.
  void gone(const std::shared_ptr<visit>& here, const std::string& why) {
    here->line = nullptr;
    if (here->has_asked || current_ != here) return;
    current_ = nullptr;
    report(here->address, why);
  }

  void tick() {
    timer_.expires_after(options_.pulse);
    timer_.async_wait([this](const error_code& failed) {
      if (!failed) tick();
    });
    const auto now = clock::now();
    log_.look(now);
    std::erase_if(leaving_, [&](const leaving& each) {
      const auto line = each.line.lock();
      const bool is_late = now - each.since > options_.patience;
      if (line && is_late) line->cut();
      return !line || is_late;
    });
    if (!current_ || !current_->line) return;
    if (current_->has_asked) {
      const auto news = options_.news ? options_.news() : "";
      current_->line->send(bytes_of({.kind = frame_kind::pulse, .payload = one_line(news, max_text_bytes)}));
    } else if (now - current_->since > options_.patience) {
      const auto here = current_;
      here->line->cut();
      gone(here, "it has not said what it asks for within " + text_of(options_.patience));
    }
  }

  void report(const std::string& who, const std::string& why) {
    log_.write("[control] turned away " + who + ": " + one_line(why, 300), clock::now());
  }

  void close_all() {
    timer_.cancel();
    listener_->stop();
    const auto here = current_;
    if (here && here->has_asked) return reply(here, {false, run_is_over});
    if (here && here->line) here->line->cut();
  }

  request_port_options options_;
  handler handle_;
  network_thread network_; // before what uses its context
  boost::asio::ssl::context tls_;
  log_limiter log_;
  boost::asio::steady_timer timer_;
  std::string address_;
  std::unique_ptr<listener> listener_;
  std::shared_ptr<visit> current_;
  std::vector<leaving> leaving_;
};

request_port::request_port(const launch& where, request_port_options options, handler handle)
    : desk_(std::make_shared<desk>(where, std::move(options), std::move(handle))) {
  desk_->start();
}

request_port::~request_port() {
  desk_->stop();
}

std::string request_port::address() const {
  return desk_->address();
}

} // namespace penstock::transport
