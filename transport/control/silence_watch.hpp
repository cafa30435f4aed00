// Who has said nothing for too long. Time is passed in.
#pragma once

#include <chrono>
#include <map>
#include <vector>

namespace penstock::transport {

/// Peers that speak now and then. A watcher that was itself asleep (stopped, suspended) for half the allowed silence
/// blames nobody for it: all peers get the time anew. Used by one thread.
class silence_watch {
public:
  using time = std::chrono::steady_clock::time_point;

  explicit silence_watch(std::chrono::milliseconds allowed) : allowed_(allowed) {}

  /// The peer is watched from the first time on.
  void heard(int peer, time now) { last_heard_[peer] = now; }
  void forget(int peer) { last_heard_.erase(peer); }

  /// Peers that are silent for longer than allowed. To be called several times within half of that.
  std::vector<int> silent(time now) {
    const bool was_asleep = last_look_ != time{} && now - last_look_ > allowed_ / 2;
    last_look_ = now;
    std::vector<int> found;
    for (auto& [peer, last] : last_heard_) {
      if (was_asleep)
        last = now;
      else if (now - last > allowed_)
        found.push_back(peer);
    }
    return found;
  }

private:
  std::chrono::milliseconds allowed_;
  std::map<int, time> last_heard_;
  time last_look_{};
};

} // namespace penstock::transport
