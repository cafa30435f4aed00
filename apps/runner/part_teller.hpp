// Says what a long part is at, once for each thing, and asks whether it should go on.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace penstock::apps {

/// All functions may be called from any thread.
class part_teller {
public:
  using say_line = std::function<bool(const std::string&)>;

  /// `say` gets lines, and "" where there is nothing to tell; false means to give up.
  explicit part_teller(say_line say) : say_(std::move(say)) {}

  /// `what` is said when it is new, with `detail` ("40%") behind it. Returns what `say` did.
  bool at(const std::string& what, const std::string& detail) {
    const std::lock_guard lock(mutex_);
    if (what == what_) return say_("");
    what_ = what;
    return say_(detail.empty() ? what : what + " (" + detail + ")");
  }
  /// Returns what `say` did.
  bool goes_on() { return say_(""); }

private:
  say_line say_;
  std::mutex mutex_;
  std::string what_;
};

} // namespace penstock::apps
