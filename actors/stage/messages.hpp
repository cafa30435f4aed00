// Every message between stages, as plain values. Messages describe themselves; inside a process they pass references,
// never copies.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/loss_metrics.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace penstock::actors {

/// What a message is about. The receiver matches by this key, never by order of arrival.
struct message_key {
  std::int64_t plan_epoch = 0;  ///< raised with every new plan; another one is refused
  std::int64_t stretch = 0;     ///< drains before this one; evaluations count down from -1
  std::int64_t minibatch = 0;   ///< global id
  std::int64_t since_drain = 0; ///< the same, counted from the last drain (tau); replicas are dealt by it
  std::int32_t microbatch = 0;
  std::int32_t stage = 0; ///< whom an activation, a gradient or labels are for: a worker may host several
  phase mode = phase::training;
};

struct named_tensor {
  std::string name; ///< the model's global value name
  tensor value;     ///< "none": explicitly no gradient
};

/// From the stage before: the tensors that cross the cut, left to right. From the source: the model's inputs that stage
/// 0 reads.
struct activation_msg {
  message_key key;
  std::int64_t version = 0; ///< weight version the sender's forward used
  microbatch_info info;
  std::vector<named_tensor> tensors;
};

/// From the stage behind: the gradients of those tensors, right to left.
struct gradient_msg {
  message_key key;
  std::int64_t version = 0; ///< weight version the sender's backward used
  std::vector<named_tensor> tensors;
};

/// From the source to a later stage that reads inputs of the model (labels, lengths), past all others.
struct inputs_msg {
  message_key key;
  microbatch_info info;
  std::vector<named_tensor> tensors;
};

/// To the metrics, from each stage that has losses or, evaluating, results.
struct loss_msg {
  message_key key;
  loss_metrics metrics;              ///< its own losses' sums; samples and counts of the micro-batch and its minibatch
  std::vector<named_tensor> results; ///< evaluating, from the last stage: the model's
};

/// To the source that admitted it: one micro-batch leaves the pipeline, its last work being handed over by stage 0 (or
/// done by the last stage, evaluating).
struct credit_msg {
  message_key key;
};

/// One weight version of one stage. Nobody writes it while a replica may read it.
struct weight_set {
  std::int64_t version = 0;    ///< updates the stage has applied; never changes
  std::vector<tensor> tensors; ///< in the order of segment::parameters(); filled in by the update, on its stream
};
using weights_ptr = std::shared_ptr<weight_set>;

/// Gradients by parameter, which the backwards of a stream fill in.
using gradients_ptr = std::shared_ptr<std::vector<tensor>>;

/// Optimizer to the replicas of its stage: a version can be read by work that is posted from now on. The first of a
/// stretch or of an evaluation is 0.
struct weights_msg {
  std::int64_t stretch = 0;
  int stage = 0;
  std::int64_t version = 0; ///< counted from the drain
  weights_ptr weights;
};

/// Replica to its optimizer: what it adds to an update. The gradients are there; those of a stage's only replica, whose
/// stream is the update's, are there for work posted from now on.
struct gradient_share_msg {
  static constexpr std::int64_t holds_none = std::numeric_limits<std::int64_t>::max();
  std::int64_t stretch = 0;
  std::int64_t group = 0;
  int replica = 0;
  std::int64_t minibatches = 0;         ///< it contributes of which something counts; pipedream family: 0 or 1
  gradients_ptr gradients{};            ///< by parameter
  std::int64_t holds_from = holds_none; ///< the oldest version, counted from the drain, that the replica still reads
};

/// The same while the last backward of the group still runs: these gradients are final.
struct gradient_bucket_msg {
  std::int64_t stretch = 0;
  std::int64_t group = 0;
  int replica = 0;
  std::size_t bucket = 0;        ///< of the stage's bucket plan
  std::vector<tensor> gradients; ///< of the bucket's parameters
};

/// Optimizer to those of other stages: this stage's gradients of tensors that both use, summed over its replicas.
struct tie_msg {
  std::int64_t stretch = 0;
  std::int64_t group = 0;
  int stage = 0;                     ///< whose gradients they are
  std::vector<named_tensor> tensors; ///< by the tensor's name, a stage's uses of one in reverse topological order
};

/// Optimizers to rank 0's coordinator and back: clipping by the global norm.
struct norm_msg {
  std::int64_t stretch = 0;
  int stage = 0;
  std::int64_t group = 0;
  std::vector<double> squares; ///< by parameter
};
struct clip_msg {
  std::int64_t stretch = 0;
  std::int64_t group = 0;
  float factor = 1;
};

} // namespace penstock::actors
