// Counts the losses of a stretch: when all are in, its metrics are complete. No actor, thread or clock.
#pragma once

#include "actors/run/stretch.hpp"
#include "actors/stage/messages.hpp"

#include <map>
#include <variant>
#include <vector>

namespace penstock::actors {

/// Coordinator to the metrics: an evaluation begins.
struct count_evaluation_msg {
  std::int64_t stretch = 0;
  std::int64_t batches = 0;
};

struct begin_steps { ///< the losses of a training stretch come next
  stretch_ptr run;
};
struct add_loss { ///< of a training micro-batch
  loss_msg message;
};
struct losses_are_in {}; ///< all of the training stretch
struct evaluation_so_far {
  std::int64_t samples = 0;
};
struct evaluation_results { ///< of one batch, by the model's names
  std::int64_t batch = 0;
  std::vector<named_tensor> tensors;
};
struct evaluation_is_in {
  loss_metrics total;
  bool is_complete = true; ///< false: it was given up
};
using metrics_effect =
    std::variant<begin_steps, add_loss, losses_are_in, evaluation_so_far, evaluation_results, evaluation_is_in>;
using metrics_effects = std::vector<metrics_effect>;

class metrics_core {
public:
  /// `tellers`: stages that send a loss_msg for each micro-batch.
  explicit metrics_core(int tellers = 1) : tellers_(tellers) {}
  [[nodiscard]] metrics_effects on(const begin_training_msg& m);
  [[nodiscard]] metrics_effects on(const count_evaluation_msg& m);
  [[nodiscard]] metrics_effects on(const end_after_msg& m);
  [[nodiscard]] metrics_effects on(const loss_msg& m);

private:
  void finish(metrics_effects& out);

  std::int64_t stretch_ = 0;
  bool evaluates_ = false;
  int tellers_;
  int microbatches_ = 1;
  std::int64_t planned_ = 0; // messages
  std::int64_t left_ = 0;
  bool is_done_ = true;
  bool is_cut_ = false;
  std::int64_t samples_ = 0;                   // evaluated
  std::map<std::int64_t, loss_metrics> parts_; // summed in order at the end, so that totals repeat
};

} // namespace penstock::actors
