// What a worker wants done.
#pragma once

#include "actors/stage/stage_work.hpp"

#include <variant>
#include <vector>

namespace penstock::actors {

struct compute {
  std::shared_ptr<stage_work> job; ///< on its stream; comes back to worker_core::completed
};
struct send_activation {
  activation_msg message; ///< to the stage in its key, the next one
};
struct send_gradient {
  gradient_msg message; ///< to the stage in its key, the one before
};
struct send_loss {
  loss_msg message;
};
struct return_credit {
  credit_msg message; ///< to the source that admitted it
};
struct give_gradients {
  int stage = 0;
  gradient_share_msg share; ///< to that stage's optimizer
};
struct part_is_done {}; ///< all that the stretch asks of it
using worker_effect =
    std::variant<compute, send_activation, send_gradient, send_loss, return_credit, give_gradients, part_is_done>;
/// In this order.
using worker_effects = std::vector<worker_effect>;

} // namespace penstock::actors
