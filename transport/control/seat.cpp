// Waits, held messages and the failure of one rank.
#include "transport/control/seat.hpp"

#include "kernels/check.hpp"
#include "transport/control/hello.hpp"
#include "transport/control/verdict.hpp"
#include "transport/control/words.hpp"

#include <algorithm>
#include <utility>

namespace penstock::transport {

namespace {

constexpr auto longest_wait = std::chrono::hours(1000); // far beyond any job, and no overflow of the clock

void check_payload(std::string_view what, std::string_view name, std::string_view payload) {
  check(!name.empty() && name.size() <= max_name_bytes, "a control blob's or topic's name has 1 to 255 bytes");
  if (payload.size() > max_payload_bytes)
    throw error("[control] " + std::string(what) + " '" + std::string(name) + "' has " +
                std::to_string(payload.size()) + " bytes, at most " + std::to_string(max_payload_bytes) +
                " can be sent");
}

} // namespace

void seat::wait(lock& held, std::chrono::milliseconds deadline, const std::function<bool()>& ready,
                const std::function<std::string()>& late) {
  check(!on_network_thread(), "a control handler must not wait");
  const auto done = [&] { return failure_.has_value() || ready(); };
  if (!changed_.wait_for(held, std::min<std::chrono::milliseconds>(deadline, longest_wait), done))
    throw error("[control] " + late());
  if (!ready()) throw job_failed(*failure_);
}

void seat::wait_for_members(std::chrono::milliseconds deadline, const std::string& late) {
  lock held(mutex_);
  wait(
      held, deadline, [&] { return welcome_; }, [&] { return late; });
}

seat::blobs& seat::blobs_named(const std::string& name) {
  auto& b = blobs_[name];
  b.by_rank.resize(static_cast<std::size_t>(size_));
  return b;
}

// The name stays in the table, empty, so that its second use is found out.
void seat::open(std::string_view name, std::string_view blob) {
  auto& b = blobs_named(std::string(name));
  check(!std::exchange(b.asked, true), "a name of a control blob is used twice");
  b.by_rank[static_cast<std::size_t>(rank_)] = blob;
}

std::string seat::without(const std::string& name, const blobs& b) const {
  const auto missing = std::ranges::find_if_not(b.by_rank, &std::optional<std::string>::has_value) - b.by_rank.begin();
  const auto r = static_cast<std::size_t>(missing);
  return "rank " + std::to_string(missing) + (r < members_.size() ? " (host " + members_[r].host + ")" : "") +
         " has not sent its '" + name + "'";
}

std::vector<std::string> seat::all_gather(std::string_view name, std::string_view blob,
                                          std::chrono::milliseconds deadline) {
  check_payload("blob", name, blob);
  {
    const lock held(mutex_);
    open(name, blob);
  }
  up({.kind = frame_kind::blob, .name = std::string(name), .payload = std::string(blob)});
  lock held(mutex_);
  auto& mine = blobs_.at(std::string(name));
  wait(
      held, deadline, [&] { return std::ranges::all_of(mine.by_rank, &std::optional<std::string>::has_value); },
      [&] { return without(std::string(name), mine) + " within " + text_of(deadline); });
  std::vector<std::string> all;
  for (auto& b : mine.by_rank)
    all.push_back(std::move(*b));
  mine.by_rank.clear();
  return all;
}

std::string seat::broadcast(std::string_view name, std::string_view blob, std::chrono::milliseconds deadline) {
  if (rank_ == 0) {
    check_payload("blob", name, blob);
    {
      const lock held(mutex_);
      open(name, "");
    }
    up({.kind = frame_kind::blob, .name = std::string(name), .payload = std::string(blob)});
    if (const auto cause = failure()) throw job_failed(*cause);
    return std::string(blob);
  }
  lock held(mutex_);
  open(name, "");
  auto& mine = blobs_.at(std::string(name));
  wait(
      held, deadline, [&] { return mine.by_rank[0].has_value(); },
      [&] { return without(std::string(name), mine) + " within " + text_of(deadline); });
  auto theirs = std::move(*mine.by_rank[0]);
  mine.by_rank.clear();
  return theirs;
}

void seat::send(int to, std::string_view topic, std::string_view payload) {
  check(to >= 0 && to < size_, "a control message to a rank that there is not");
  check_payload("message", topic, payload);
  up({.kind = frame_kind::message, .rank = to, .name = std::string(topic), .payload = std::string(payload)});
}

void seat::on_message(std::string_view topic, message_handler handler) {
  {
    const lock held(mutex_);
    auto& t = topics_[std::string(topic)];
    t.handler = handler ? std::make_shared<const message_handler>(std::move(handler)) : nullptr;
    if (!t.handler || t.held.empty()) return;
  }
  post([this, name = std::string(topic)] { drain(name); });
}

void seat::doing(std::string_view what) {
  auto line = one_line(what, max_text_bytes);
  const lock held(mutex_);
  doing_ = std::move(line);
}

std::string seat::now_doing() const {
  const lock held(mutex_);
  return doing_;
}

void seat::fail(std::string_view what) {
  up({.kind = frame_kind::failed, .payload = one_line(what, max_text_bytes)});
}

void seat::suspect(int peer, std::string_view what) {
  check(peer >= 0 && peer < size_ && peer != rank_, "a suspicion against a rank that there is not");
  up({.kind = frame_kind::suspect, .rank = peer, .payload = one_line(what, max_text_bytes)});
}

std::optional<job_failure> seat::failure() const {
  const lock held(mutex_);
  return failure_;
}

void seat::on_failure(failure_handler handler) {
  {
    const lock held(mutex_);
    failure_handler_ = std::move(handler);
    if (!failure_) return;
  }
  post([this] { tell_failure(); });
}

void seat::leave(std::chrono::milliseconds deadline) {
  up({.kind = frame_kind::leave});
  lock held(mutex_);
  wait(
      held, deadline, [&] { return all_left_; },
      [&] { return "not all ranks have left the job within " + std::to_string(deadline.count()) + " ms"; });
}

void seat::take(frame f) {
  lock held(mutex_);
  if (all_left_ || failure_) return;
  switch (f.kind) {
  case frame_kind::welcome:
    members_ = decode_members(f.payload);
    if (members_.size() != static_cast<std::size_t>(size_) || welcome_) throw error("a welcome of another job");
    welcome_ = true;
    break;
  case frame_kind::blob: {
    if (f.rank < 0 || f.rank >= size_) throw error("a blob of rank " + std::to_string(f.rank));
    auto& slot = blobs_named(f.name).by_rank[static_cast<std::size_t>(f.rank)];
    slot = std::move(f.payload);
    break;
  }
  case frame_kind::message:
    topics_[f.name].held.emplace_back(f.rank, std::move(f.payload));
    held.unlock();
    return drain(f.name);
  case frame_kind::all_left:
    all_left_ = true;
    break;
  case frame_kind::failed:
  case frame_kind::lost: {
    auto cause = failure_of(f);
    held.unlock();
    return end_with(std::move(cause));
  }
  default:
    throw error("a frame of kind " + std::to_string(static_cast<int>(f.kind)));
  }
  changed_.notify_all();
}

void seat::end_with(job_failure cause) {
  {
    const lock held(mutex_);
    if (all_left_ || failure_) return;
    failure_ = std::move(cause);
  }
  changed_.notify_all();
  tell_failure();
}

bool seat::is_over() const {
  const lock held(mutex_);
  return all_left_ || failure_.has_value();
}

// The handlers are called without the lock, so that they may use the control plane.
void seat::drain(const std::string& topic) {
  while (true) {
    std::pair<int, std::string> next;
    std::shared_ptr<const message_handler> handler;
    {
      const lock held(mutex_);
      auto& t = topics_[topic];
      if (!t.handler || t.held.empty()) return;
      next = std::move(t.held.front());
      t.held.pop_front();
      handler = t.handler;
    }
    try {
      (*handler)(next.first, next.second);
    } catch (const std::exception& e) {
      fail("its handler of '" + topic + "' messages: " + e.what());
    }
  }
}

void seat::tell_failure() {
  failure_handler handler;
  std::optional<job_failure> cause;
  {
    const lock held(mutex_);
    handler = std::exchange(failure_handler_, {});
    cause = failure_;
  }
  if (!handler || !cause) return;
  try {
    handler(*cause);
  } catch (const std::exception&) {
    // The job has failed already; there is nothing more to say.
  }
}

} // namespace penstock::transport
