// An endpoint over UCX: connects, greets, loses peers, and closes.
#include "transport/ucx/ucx_endpoint.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <future>
#include <utility>

namespace penstock::transport {

namespace {

constexpr std::chrono::milliseconds closing_time{1000};

std::string name(int rank) {
  return "rank " + std::to_string(rank);
}

} // namespace

ucx_endpoint::ucx_endpoint(const ucx_options& options, std::vector<std::unique_ptr<ucx_worker>> workers,
                           const std::vector<ucx_path>& paths)
    : book_(options.rank, options.size), sending_(book_, {options.token, options.rank, options.size},
                                                  [this](int peer, const std::string& what) { lose_soon(peer, what); }),
      reception_(book_, inbox_, {options.token, options.rank, options.size},
                 {[this](int peer, wire_kind greeting) { greeted(peer, greeting); },
                  [this](int peer, const std::string& what) { lose_soon(peer, what); }}),
      lines_(paths.size()), workers_(std::move(workers)) {
  std::vector<ucx_worker*> all;
  for (const auto& w : workers_) {
    reception_.attach(*w);
    all.push_back(w.get());
  }
  for (int peer = 0; peer < size(); ++peer)
    connect(peer, paths[static_cast<std::size_t>(peer)]);
  loop_ = std::make_unique<network_loop>(
      all, options.poll, [this] { return sending_.send_next_pieces(); },
      [this](const std::exception_ptr& e) {
        for (int peer = 0; peer < size(); ++peer)
          lose(peer, text_of(e));
      });
}

ucx_endpoint::~ucx_endpoint() {
  if (loop_) {
    loop_->post([this] { shut_down(); });
    loop_->stop([this] { return closing_ == 0; }, closing_time);
  }
  loop_.reset();
  workers_.clear(); // here UCX lets go of what is still under way
}

void ucx_endpoint::connect(int peer, const ucx_path& path) {
  if (path.through == nullptr) return;
  auto& l = lines_[static_cast<std::size_t>(peer)];
  l = std::make_unique<line>(line{*this, peer});
  l->kind = path.through->kind();
  const auto on_error = [](void* failed, ucp_ep_h, ucs_status_t status) {
    const auto& lost = *static_cast<line*>(failed);
    lost.owner.lose_soon(lost.peer, std::string("its connection broke: ") + ucs_status_string(status));
  };
  l->connection = path.through->connect(path.address, name(peer), {on_error, l.get()});
  sending_.connect(peer, l->connection, path.through->max_header(),
                   l->kind == ucx_kind::network ? piece_bytes_of(l->connection) : 0);
}

void ucx_endpoint::greet_all(std::chrono::milliseconds deadline) {
  loop_->post([this] {
    for (const auto& l : lines_) {
      if (l) sending_.greet(l->peer, wire_kind::hello);
    }
  });
  std::unique_lock lock(mutex_);
  const auto silent = [this] {
    return std::find_if(lines_.begin(), lines_.end(), [](const auto& l) { return l && !l->has_answered; });
  };
  const auto lost = [this]() -> std::optional<std::string> {
    for (const auto& l : lines_) {
      if (!l) continue;
      if (const auto why = book_.loss(l->peer)) return "[ucx] " + name(l->peer) + " is lost: " + *why;
    }
    return std::nullopt;
  };
  answered_.wait_for(lock, deadline, [&] { return silent() == lines_.end() || lost(); });
  if (const auto why = lost()) throw error(*why);
  if (const auto it = silent(); it != lines_.end())
    throw error("[ucx] " + name((*it)->peer) + " does not answer over " +
                ((*it)->kind == ucx_kind::network ? "the network" : "shared memory") + ": waited " +
                std::to_string(deadline.count()) + " ms");
}

void ucx_endpoint::greeted(int peer, wire_kind greeting) {
  if (greeting == wire_kind::hello) return sending_.greet(peer, wire_kind::welcome);
  line& l = *lines_[static_cast<std::size_t>(peer)];
  const std::string route = route_of(l.connection, l.kind);
  const std::lock_guard lock(mutex_);
  l.route = route;
  l.has_answered = true;
  answered_.notify_all();
}

void ucx_endpoint::send(int peer, channel to, message m, completion sent) {
  book_.check_sendable(peer, m);
  book_.posted(peer);
  // std::function wants to be copied, so the message goes by handle.
  struct letter {
    message content;
    completion sent;
  };
  loop_->post([this, peer, to, what = std::make_shared<letter>(letter{std::move(m), std::move(sent)})] {
    sending_.start(peer, to, std::move(what->content), std::move(what->sent));
  });
}

void ucx_endpoint::listen(channel from, std::shared_ptr<receiver> taker) {
  inbox_.listen(from, std::move(taker));
  loop_->post([this, from] {
    while (auto held = inbox_.next_held(from)) {
      const int peer = held->peer;
      try {
        inbox_.hand_over(std::move(*held));
      } catch (...) {
        lose(peer, text_of(std::current_exception()));
      }
    }
  });
}

void ucx_endpoint::on_failure(failure_handler handler) {
  book_.on_failure(std::move(handler));
  loop_->post([this] { book_.report(); });
}

void ucx_endpoint::flush(std::chrono::milliseconds deadline) {
  check(!loop_->is_this_thread(), "flush() would wait for its own thread");
  const auto until = std::chrono::steady_clock::now() + deadline;
  book_.wait_until_sent(until);
  // UCX may call a message sent that it has only copied.
  const auto handed_over = std::make_shared<std::promise<std::optional<std::string>>>();
  loop_->post([this, handed_over] {
    sending_.flush([handed_over](std::optional<std::string> failure) { handed_over->set_value(std::move(failure)); });
  });
  auto outcome = handed_over->get_future();
  if (outcome.wait_until(until) != std::future_status::ready)
    throw error("[ucx] what " + name(rank()) + " has sent was not handed over within " +
                std::to_string(deadline.count()) + " ms");
  if (const auto failure = outcome.get()) throw error(*failure);
}

std::string ucx_endpoint::route_to(int peer) const {
  const auto& l = lines_.at(static_cast<std::size_t>(peer));
  if (!l) return "itself";
  const std::lock_guard lock(mutex_);
  return l->route;
}

void ucx_endpoint::lose_soon(int peer, const std::string& what) {
  // Not at once: UCX may be in the middle of a call, where no connection may be closed. And not at all once the thread
  // has ended, when UCX lets go of the rest.
  if (loop_) loop_->post([this, peer, what] { lose(peer, what); });
}

void ucx_endpoint::lose(int peer, const std::string& what) {
  const auto& l = lines_[static_cast<std::size_t>(peer)];
  if (!l || !book_.lose(peer, what)) return;
  sending_.drop(peer, what);
  reception_.forget(peer);
  close(*l);
  answered_.notify_all();
  try {
    book_.report();
  } catch (...) { // the handler's business; nobody else is left to tell
  }
}

void ucx_endpoint::close(line& l) {
  // Without peer-failure reports UCX refuses to close by force; the worker takes that connection with it.
  if (l.connection == nullptr || l.kind == ucx_kind::shared_memory) return;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;
  how.user_data = this;
  how.cb.send = [](void* request, ucs_status_t, void* self) {
    ucp_request_free(request);
    --static_cast<ucx_endpoint*>(self)->closing_;
  };
  const ucs_status_ptr_t request = ucp_ep_close_nbx(std::exchange(l.connection, nullptr), &how);
  if (UCS_PTR_IS_PTR(request)) ++closing_;
}

void ucx_endpoint::shut_down() {
  for (const auto& l : lines_) {
    if (!l) continue;
    const std::string why = "this rank has closed its connections";
    book_.lose(l->peer, why); // by ourselves: not to be reported
    sending_.drop(l->peer, why);
    reception_.forget(l->peer);
    close(*l);
  }
}

} // namespace penstock::transport
