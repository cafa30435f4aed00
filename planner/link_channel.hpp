// When one way over a link is taken.
#pragma once

#include <vector>

namespace penstock::planner {

/// What is held may lie in the future, with gaps before it that something shorter still finds.
class link_channel {
public:
  /// The first time from `ready` on at which it is free for so long.
  double earliest(double ready, double seconds) const {
    for (const auto& s : taken_) {
      if (s.end <= ready) continue;
      if (s.begin >= ready + seconds) break;
      ready = s.end;
    }
    return ready;
  }

  /// Nobody asks again for a time before `now`.
  void take(double begin, double seconds, double now) {
    taken_in_all_ += seconds;
    auto at = taken_.begin();
    while (at != taken_.end() && at->end < now)
      ++at;
    at = taken_.erase(taken_.begin(), at);
    while (at != taken_.end() && at->begin < begin)
      ++at;
    if (at != taken_.begin() && (at - 1)->end == begin)
      (at - 1)->end = begin + seconds;
    else
      taken_.insert(at, {begin, begin + seconds});
  }

  double taken_in_all() const { return taken_in_all_; }

private:
  struct span {
    double begin = 0;
    double end = 0;
  };
  std::vector<span> taken_; // in order, apart from one another
  double taken_in_all_ = 0;
};

/// The first time from `ready` on at which both are free for so long; they may be the same one.
inline double earliest_of_both(const link_channel& a, const link_channel& b, double ready, double seconds) {
  for (;;) {
    const auto first = a.earliest(ready, seconds);
    ready = b.earliest(first, seconds);
    if (ready == first) return ready;
  }
}

} // namespace penstock::planner
