// What a model costs: time and bytes of every layer, measured or given. The planner's first input.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::planner {

/// One layer, one micro-batch. Seconds and bytes; all finite and at least 0.
struct layer_cost {
  double forward_seconds = 0;
  double backward_seconds = 0; ///< writing weight gradients where there were none
  double accumulate_seconds =
      0;                        ///< more of it when it adds to gradients that are there (micro-batches after the first)
  double output_bytes = 0;      ///< of all outputs
  double kept_output_bytes = 0; ///< the part of them that some layer's backward reads: kept_bytes count it
  /// Bytes that live from forward to backward on this layer's account: tensors it made for its own backward, and its
  /// output where some layer's backward reads it. Sums over layers; the model's input is nobody's.
  double kept_bytes = 0;
  /// Most that is alive beyond weights, weight gradients of this layer and those after it, and kept bytes of this layer
  /// and those before it, while its forward or its backward runs.
  double workspace_bytes = 0;
  double backward_workspace_bytes = 0;
  double weight_seconds = 0; ///< the part of backward_seconds that makes weight gradients alone, and may come later
  double delayed_bytes = 0;  ///< what that part needs, of inputs and output gradients, until it is done
};

struct profile_layer {
  std::string name;        ///< global, unique
  std::string kind;        ///< "conv2d"
  std::vector<int> inputs; ///< producers: indices of earlier layers, each once; -1: the model's input
  double weight_bytes = 0; ///< one version, as stored
  double carried_bytes =
      0; ///< per sample: what a minibatch hands to the next one, by batch column; 0: it hands on nothing
  double forward_flops = 0;         ///< per sample (a multiply-add counts 2); 0: not known
  bool fused_with_previous = false; ///< computed within the layer before: no cut between them
  bool frozen = false;              ///< its costs are those of a frozen layer (frozen_costs); in no file
  double frozen_bytes = 0;          ///< of its weights then, which weight_bytes lack
};

/// All layers at one micro-batch size, run as a stage runs them.
struct measurement {
  std::int64_t samples = 1;           ///< of a micro-batch
  int threads = 1;                    ///< compute threads of the worker
  std::vector<layer_cost> layers;     ///< as profile::layers
  std::vector<double> update_seconds; ///< of the optimizer, per layer; empty: not measured, 0
  double spread = 0;                  ///< middle half of the repeats of a pass over their median; 0: not measured
};

struct profile {
  std::string model;         ///< name in the registry, or the graph's
  std::string model_options; ///< "image_size=64 classes=10 width=1": what fixes shapes
  std::int64_t input_bytes_per_sample = 0;
  std::int64_t least_samples = 1;              ///< of a micro-batch that the model can be trained on
  std::map<std::string, std::string> machine;  ///< processor, instruction set, library, workers, ...: for the reader
  std::vector<profile_layer> layers;           ///< in topological order
  std::vector<std::vector<int>> tied;          ///< layers that have a tensor in common, ascending
  std::vector<std::vector<int>> kept_together; ///< layers that no cut should part (model::kept_together), ascending
  std::vector<measurement> measurements;       ///< each (samples, threads) once; at least one
  std::vector<std::string> doubts;             ///< where it contradicts itself, though it was measured again
};

/// What a file that does not tell weight_seconds and delayed_bytes is taken to say of a layer with weights: half of its
/// backward, and the outputs of the layers that it reads and its own. A layer without weights has neither.
double usual_weight_seconds(const profile_layer& layer, const layer_cost& cost);
double usual_delayed_bytes(const profile& p, const measurement& m, std::size_t layer);

/// Throws std::invalid_argument, one line that names the layer, what was found and what was wanted: no layers, a
/// duplicate or empty name or "input" (which names the model's input), a text with control characters, an input that is
/// not an earlier layer (so cycles too), a number that is negative, not finite or absurd (a time above 1e6 s, a size
/// above 1e15 bytes), lists of other lengths, a measurement twice.
void check_profile(const profile& p);

/// Whether minibatches hand something on, so that a batch column has to keep to one replica of every stage.
bool hands_on(const profile& p);

/// Readers throw std::invalid_argument, one line that begins with `source` (the file's name) and says where: the key's
/// path or the line. What they return passes check_profile().
///
/// JSON: the members above as keys, "format": "penstock-profile" and "version": 1; inputs by name; costs of a
/// measurement in an object by layer, update_seconds among them. What is 0 unless measured and what is empty may be
/// left out, and so may weight_seconds and delayed_bytes (see usual_weight_seconds); the rest may not; an unknown key
/// is refused with the nearest.
profile profile_from_json(std::string_view text, const std::string& source);
/// Reads back exactly. Throws as check_profile().
std::string to_json(const profile& p);

/// PipeDream's graph.txt (SOSP'19 artifact): "nodeN -- desc -- forward_compute_time=ms, ..." lines and tab-indented
/// edges. `Input*` nodes and `__getitem__` sinks that nothing reads are stripped; nodes come in any order and leave in
/// topological order, the least number first. Times are ms, sizes bytes ("[a; b; c]" is summed); kept bytes are the
/// output's. `samples` is the batch it was made with: the file does not say. The model is named after the file.
profile profile_from_graph(std::string_view text, const std::string& source, std::int64_t samples = 1);

/// Reads either kind by its first character that is not space.
profile read_profile(std::string_view text, const std::string& source);

/// Of its layers.
std::vector<std::string> names_of(const profile& p);

/// Times and bytes of every layer times `factor`, weights and updates as they are: of a profile that was made with
/// sequences of another length.
profile scaled(profile p, double factor);

/// Costs of all layers for a micro-batch of that many samples (a fraction is allowed; 0 costs nothing), at the
/// measurements' thread count nearest below or equal `threads`, else the least; 0 threads: the first measurement's.
/// Between sizes linear. Below the least and above the largest on the line of the two nearest, held between that end's
/// own cost and the proportional one (a fixed part and a part per sample, neither below 0); one size only:
/// proportional.
std::vector<layer_cost> costs_at(const profile& p, double samples, int threads);
/// Seconds of one update, per layer, at that thread count: the median over sizes, which an update does not depend on.
std::vector<double> update_seconds_at(const profile& p, int threads);

} // namespace penstock::planner
