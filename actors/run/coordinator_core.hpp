// What the coordinator of a rank decides: begin, drain and end of stretches and evaluations, the global norm, the first
// cause of a failure, standstills. Those of several ranks agree by notes; rank 0's decides. No actor, thread or clock.
#pragma once

#include "actors/run/note.hpp"
#include "actors/run/stretch.hpp"
#include "actors/run/watchdog.hpp"
#include "actors/stage/messages.hpp"

#include <variant>
#include <vector>

namespace penstock::actors {

/// What a rank has of a plan epoch.
struct coordinator_place {
  int rank = 0;
  int ranks = 1;
  std::vector<int> source_ranks{0}; ///< those that host replicas of stage 0
  bool has_source = true;
  bool has_metrics = true;
  std::size_t stages = 1;         ///< of the whole pipeline
  std::size_t frozen_stages = 0;  ///< of them, the first ones, whose gradients have no norm
  std::size_t training_parts = 0; ///< here, that say when they have done what a stretch asks of them
  double clip_norm = 0;
  double stall_seconds = 300;
  std::int64_t evaluations = 0; ///< of the run, under the plans before
};

struct begin_training_here { ///< in an order in which nothing is admitted before all know of it
  stretch_ptr run;
};
struct begin_evaluation_here {
  std::int64_t stretch = 0;
};
struct end_after_here {
  end_after_msg message;
  bool is_shorter = true; ///< false: as planned, so only the source needs to hear that it may go on
};
struct pause_source {};
struct tell_rank {
  int rank = 0;
  note what;
};
struct send_clip { ///< to the optimizers of all ranks
  clip_msg message;
};
struct stretch_is_over { ///< to whoever asked for it
  std::int64_t minibatches = 0;
};
struct evaluation_is_over {
  loss_metrics total;
  bool is_complete = true;
};
struct run_has_failed { ///< once for each request that is open or comes later
  std::string cause;
};
struct ask_parts {}; ///< what they wait for
struct say {         ///< to the user
  std::string line;
};
using coordinator_effect =
    std::variant<begin_training_here, begin_evaluation_here, end_after_here, pause_source, tell_rank, send_clip,
                 stretch_is_over, evaluation_is_over, run_has_failed, ask_parts, say>;
using coordinator_effects = std::vector<coordinator_effect>;

class coordinator_core {
public:
  using clock = run_watchdog::clock;

  explicit coordinator_core(coordinator_place place);

  [[nodiscard]] coordinator_effects train(stretch_ptr run, clock::time_point now);
  [[nodiscard]] coordinator_effects evaluate(clock::time_point now);
  /// Somebody wishes the stretch to end with what is admitted; `stops` the run too, so an evaluation as well.
  [[nodiscard]] coordinator_effects drain(bool stops);
  [[nodiscard]] coordinator_effects admitted(std::int64_t stretch, std::int64_t minibatches);
  [[nodiscard]] coordinator_effects part_done();
  [[nodiscard]] coordinator_effects evaluated(const loss_metrics& total, bool is_complete);
  [[nodiscard]] coordinator_effects on(const norm_msg& m);
  [[nodiscard]] coordinator_effects on(const note& n);
  /// `who` is put before what has no tag of its own.
  [[nodiscard]] coordinator_effects failed(const std::string& who, const std::string& what);
  /// An actor ended while the run goes on.
  [[nodiscard]] coordinator_effects died(const std::string& who, const std::string& why);
  [[nodiscard]] coordinator_effects tick(clock::time_point now, std::int64_t progress);
  [[nodiscard]] coordinator_effects described(const std::string& text);

  bool is_working() const { return working_; }

private:
  void begin(std::int64_t stretch, std::size_t parts, clock::time_point now, coordinator_effects& out);
  void take_early(coordinator_effects& out);
  void tell(int rank, note n, coordinator_effects& out) const;
  void tell_all(const note& n, coordinator_effects& out) const;
  void act_on(const note& n, coordinator_effects& out);
  void start_drain(bool stops, coordinator_effects& out);
  void paused(const note& n, coordinator_effects& out);
  void resume(std::int64_t minibatches, coordinator_effects& out);
  void report_done(coordinator_effects& out) const;
  void rank_done(coordinator_effects& out);
  void over(const note& n, coordinator_effects& out);
  void fail(const std::string& text, coordinator_effects& out);

  coordinator_place place_;
  stretch_ptr run_;              // while training
  std::int64_t minibatches_ = 0; // of it
  std::int64_t stretch_ = 0;     // the one at hand; evaluations count down from -1
  std::int64_t evaluations_ = 0;
  bool working_ = false; // from its begin until all ranks are done
  bool failed_ = false;
  std::string first_cause_;
  std::size_t parts_left_ = 0;
  std::vector<note> early_; // of a stretch that has not begun here
  loss_metrics evaluation_; // rank 0's total
  bool is_evaluation_complete_ = true;
  std::vector<std::vector<double>> squares_; // of one update, by stage
  std::size_t squares_in_ = 0;

  // Of rank 0.
  bool draining_ = false;
  bool drain_stops_ = false;
  std::size_t paused_ranks_ = 0;
  std::int64_t admitted_ = 0;
  int ranks_done_ = 0;
  run_watchdog watchdog_;
};

} // namespace penstock::actors
