// What a person sees while a run goes on.
#pragma once

#include "actors/trainer.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace penstock::apps {

/// On a terminal one live line, redrawn at most ten times a second, with what else there is to say above it; elsewhere
/// a plain line every few seconds and at each epoch's end. A part that lasts is told of every ten seconds, whether or
/// not it says how far it is; on a terminal it is shown at once. Any thread.
class progress {
public:
  using clock = std::chrono::steady_clock;

  /// `is_silent`: nothing is shown (another rank speaks).
  explicit progress(std::FILE* out, bool is_silent = false);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// May be 0 when nothing is trained, or not known yet.
  void steps_per_epoch(std::int64_t steps) { steps_per_epoch_ = steps; }
  void step(const actors::step_event& event);
  void eval(const actors::eval_event& event);
  void note(const std::string& line);
  /// A long part begins or goes on; it ends with whatever comes next.
  void part(const actors::part_progress& p);
  void finish(); ///< takes the live line away

private:
  struct long_part {
    actors::part_progress at;
    clock::time_point begun;
    clock::time_point told; ///< when a line was last printed or drawn
  };
  std::string head(const actors::step_event& event) const;
  std::string tail(const actors::step_event& event) const;
  std::string plain_line(const actors::step_event& event) const;
  void draw(const actors::step_event& event);
  void draw(const std::string& left, double part, const std::string& right);
  void print(const std::string& line);
  void clear();
  void watch();
  void tell_of_part(clock::time_point now);
  std::optional<double> seconds_left(const actors::step_event& event) const;
  bool is_epoch_end(const actors::step_event& event) const;

  std::FILE* out_;
  bool silent_;
  bool live_;
  bool drawn_ = false;
  std::int64_t steps_per_epoch_ = 0;
  clock::time_point last_{};
  clock::time_point first_step_at_{};
  std::int64_t first_step_ = 0; ///< of this process: a resumed run does not begin with 1
  // Means since the epoch began.
  std::int64_t epoch_ = -1;
  double loss_ = 0;
  std::vector<double> shown_;
  std::int64_t counted_ = 0;

  std::optional<long_part> part_;
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::thread watcher_; ///< tells of parts that say nothing themselves
};

} // namespace penstock::apps
