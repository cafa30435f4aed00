// One piece of work on a replica's stream, from the moment it is posted to its completion message.
#pragma once

#include "actors/control_messages.hpp"

namespace penstock::actors {

/// The actor fills the inputs and posts it; the stream's thread fills the results; the completion message brings it
/// back. Each field has one owner at a time.
struct stage_job {
  enum class kind : std::uint8_t { forward, backward, evaluate } what = kind::forward;
  message_key key;
  planner::action action;
  std::int64_t version = 0; ///< absolute, read
  std::int64_t samples = 0;
  bool stashes_weights = true;
  std::vector<tensor> inputs; ///< activations, or output gradients
  tensor labels;
  std::shared_ptr<microbatch_record> record;
  weights_ptr weights;                            ///< to read; dropped when the work is done
  std::shared_ptr<std::vector<tensor>> gradients; ///< backward adds to it
  std::function<void(int)> layer_done;            ///< of the last backward of an update; else empty
  std::vector<tensor> outputs;
  loss_metrics metrics;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

} // namespace penstock::actors
