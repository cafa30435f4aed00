// Every message between stages. Messages describe themselves; inside a process they pass references, never copies.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/loss.hpp"

#include <caf/allowed_unsafe_message_type.hpp>

namespace penstock::actors {

/// What a message is about. The receiver matches by this key, never by order of arrival.
struct message_key {
  std::int64_t plan_epoch = 0;  ///< raised with every new plan; another one is refused
  std::int64_t segment = 0;     ///< drains before this
  std::int64_t minibatch = 0;   ///< global id
  std::int64_t since_drain = 0; ///< the same, counted from the last drain (tau); replicas are dealt by it
  std::int32_t microbatch = 0;
  phase mode = phase::training;
};

struct named_tensor {
  std::string name; ///< the model's global value name
  tensor value;     ///< "none": explicitly no gradient
};

/// From the stage before (or the source): the tensors that cross the cut, left to right.
struct activation_msg {
  message_key key;
  std::int64_t version = 0; ///< weight version the sender's forward used
  std::int64_t samples = 0; ///< of this micro-batch; 0: an empty one, which computes nothing
  std::vector<named_tensor> tensors;
};

/// From the stage behind: the gradients of those tensors, right to left.
struct gradient_msg {
  message_key key;
  std::int64_t version = 0; ///< weight version the sender's backward used
  std::vector<named_tensor> tensors;
};

/// From the source to the last stage, past all others.
struct labels_msg {
  message_key key;
  tensor labels;                      ///< i64 [samples]
  std::int64_t samples = 0;           ///< of this micro-batch
  std::int64_t minibatch_samples = 0; ///< of its minibatch: the loss is divided by it, once
};

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::activation_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::gradient_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::labels_msg)
