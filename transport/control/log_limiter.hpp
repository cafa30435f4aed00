// Keeps a flood of connections from becoming a flood of log lines. Time is passed in.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace penstock::transport {

/// Passes on a few lines in each period, and afterwards how many it kept back. Used by one thread.
class log_limiter {
public:
  using time = std::chrono::steady_clock::time_point;
  static constexpr int most_lines = 10;
  static constexpr auto period = std::chrono::seconds(10);

  /// `log` may be empty.
  explicit log_limiter(std::function<void(const std::string&)> log) : log_(std::move(log)) {}

  void write(const std::string& line, time now) {
    look(now);
    if (written_ < most_lines) {
      ++written_;
      emit(line);
    } else {
      ++kept_back_;
    }
  }

  /// To be called now and then.
  void look(time now) {
    if (now - begun_ < period) return;
    if (kept_back_ > 0) emit("[control] ... and " + std::to_string(kept_back_) + " more connections turned away");
    begun_ = now;
    written_ = 0;
    kept_back_ = 0;
  }

private:
  void emit(const std::string& line) const {
    if (log_) log_(line);
  }

  std::function<void(const std::string&)> log_;
  time begun_{};
  int written_ = 0;
  long kept_back_ = 0;
};

} // namespace penstock::transport
