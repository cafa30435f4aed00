// How far this host's clock is from rank 0's, from questions and answers.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::transport {

/// Keeps the answer that leaves the least doubt. One that took long is doubtful by half its round trip (the two ways
/// may differ), an old one by what the clocks may have drifted apart since. Used by one thread.
class clock_estimate {
public:
  /// This clock when asking, rank 0's clock when answering, this clock when the answer came.
  void add(std::int64_t sent_ns, std::int64_t answered_ns, std::int64_t received_ns) {
    if (received_ns < sent_ns) return;
    const sample s{answered_ns - sent_ns - (received_ns - sent_ns) / 2, (received_ns - sent_ns) / 2, received_ns};
    if (!best_ || s.doubt_ns <= best_->doubt_ns + (s.taken_ns - best_->taken_ns) / drift_divisor) best_ = s;
  }

  /// To be added to this clock to get rank 0's; 0 before the first answer.
  std::int64_t offset_ns() const { return best_ ? best_->offset_ns : 0; }

private:
  static constexpr std::int64_t drift_divisor = 20'000; // 50 millionths, as much as common crystals are off

  struct sample {
    std::int64_t offset_ns = 0;
    std::int64_t doubt_ns = 0;
    std::int64_t taken_ns = 0;
  };
  std::optional<sample> best_;
};

} // namespace penstock::transport
