// What a person sees while a run goes on.
#pragma once

#include "actors/trainer.hpp"

#include <chrono>
#include <cstdio>
#include <string>

namespace penstock::apps {

/// On a terminal one live line, redrawn at most ten times a second, with what else there is to say above it; elsewhere
/// a plain line every few seconds and at each epoch's end. Called by one thread at a time.
class progress {
public:
  using clock = std::chrono::steady_clock;

  /// `steps_per_epoch` may be 0 when nothing is trained.
  progress(std::FILE* out, std::int64_t epochs, std::int64_t steps_per_epoch);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void step(const actors::step_event& event);
  void eval(const actors::eval_event& event);
  void note(const std::string& line);
  void finish(); ///< takes the live line away

private:
  std::string head(const actors::step_event& event) const;
  std::string tail(const actors::step_event& event) const;
  std::string plain_line(const actors::step_event& event) const;
  void draw(const actors::step_event& event);
  void print(const std::string& line);
  void clear();
  double seconds_left(const actors::step_event& event) const;
  bool is_epoch_end(const actors::step_event& event) const;

  std::FILE* out_;
  bool live_;
  bool drawn_ = false;
  std::int64_t epochs_;
  std::int64_t steps_per_epoch_;
  clock::time_point start_{};
  clock::time_point last_{};
  std::int64_t first_step_ = 0; ///< of this process: a resumed run does not begin with 1
  // Means since the epoch began.
  std::int64_t epoch_ = -1;
  double loss_ = 0;
  double accuracy_ = 0;
  std::int64_t counted_ = 0;
};

} // namespace penstock::apps
