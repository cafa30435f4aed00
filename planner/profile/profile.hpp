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
      0;                   ///< more of it when it adds to gradients that are there (micro-batches after the first)
  double output_bytes = 0; ///< of all outputs
  /// Bytes that live from forward to backward on this layer's account: tensors it made for its own backward, and its
  /// output where some layer's backward reads it. Sums over layers; the model's input is nobody's.
  double kept_bytes = 0;
  double workspace_bytes = 0; ///< most that is alive beyond weights, gradients and kept bytes while this layer runs
};

struct profile_layer {
  std::string name;                 ///< global, unique
  std::string kind;                 ///< "conv2d"
  std::vector<int> inputs;          ///< producers: indices of earlier layers, each once; -1: the model's input
  double weight_bytes = 0;          ///< one version, as stored
  double forward_flops = 0;         ///< per sample (a multiply-add counts 2); 0: not known
  bool fused_with_previous = false; ///< computed within the layer before: no cut between them
};

/// All layers at one micro-batch size, run as a stage runs them.
struct measurement {
  std::int64_t samples = 1;           ///< of a micro-batch
  int threads = 1;                    ///< compute threads of the worker
  std::vector<layer_cost> layers;     ///< as profile::layers
  std::vector<double> update_seconds; ///< of the optimizer, per layer; empty: not measured, 0
};

struct profile {
  std::string model;         ///< name in the registry, or the graph's
  std::string model_options; ///< "image_size=64 classes=10 width=1": what fixes shapes
  std::int64_t input_bytes_per_sample = 0;
  std::map<std::string, std::string> machine; ///< processor, instruction set, library, workers, ...: for the reader
  std::vector<profile_layer> layers;          ///< in topological order
  std::vector<measurement> measurements;      ///< each (samples, threads) once; at least one
};

/// Throws std::invalid_argument, one line that names the layer, what was found and what was wanted: no layers, a
/// duplicate or empty name, an input that is not an earlier layer (so cycles too), a number that is negative, not
/// finite or absurd (a time above 1e6 s, a size above 1e15 bytes), lists of other lengths, a measurement twice.
void check_profile(const profile& p);

/// `source` names the text in errors (the file's name).
profile profile_from_json(std::string_view text, const std::string& source);
std::string to_json(const profile& p);

/// PipeDream's graph.txt (SOSP'19 artifact): "nodeN -- desc -- forward_compute_time=ms, ..." lines and tab-indented
/// edges. `Input*` nodes and `__getitem__` sinks that nothing reads are stripped; nodes come in any order. Times are
/// ms, sizes bytes ("[a; b; c]" is summed); kept bytes are the output's. `samples` is the batch it was made with: the
/// file does not say.
profile profile_from_graph(std::string_view text, const std::string& source, std::int64_t samples = 1);

/// Reads either kind by its first character that is not space.
profile read_profile(std::string_view text, const std::string& source);

/// Costs of all layers for a micro-batch of that many samples (a fraction is allowed; 0 costs nothing), at the
/// measurements' thread count nearest below or equal `threads`, else the least. Between sizes linear, below the least
/// on the line of the two least (never below the proportional cost's share: at least 0), above the largest on the line
/// of the two largest; one size only: proportional.
std::vector<layer_cost> costs_at(const profile& p, double samples, int threads);
/// Seconds of one update, per layer, at that thread count.
std::vector<double> update_seconds_at(const profile& p, int threads);

} // namespace penstock::planner
