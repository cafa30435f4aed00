// Models run forward through the stages of a pipeline, without training.
#pragma once

#include "kernels/safetensors.hpp"
#include "kernels/segment.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace penstock::actors {

struct inference_options {
  int stages = 1;
  int threads = 0; ///< compute threads of each stage; 0: cores / stages
  std::string device = "cpu";
  bool reference_kernels = false;
};

/// Each of the models is cut into as many stages, by balanced_cuts; stage s of all of them shares one stream, and
/// nothing else of theirs is shared but the bytes of equal weights on the host. What is started goes through the stages
/// of its model by itself; a stage takes what comes to it in its order, so that as many pieces as there are stages are
/// computed at a time. Any thread may start more.
class inference_pipeline {
public:
  /// `weights`: plain f32 tensors in the host's memory by global name, all that the models have. Throws usage_error for
  /// more stages than one of the models has layers.
  inference_pipeline(const std::vector<std::shared_ptr<const model>>& models, const named_tensors& weights,
                     const inference_options& options);
  /// Finishes what was started.
  ~inference_pipeline();
  inference_pipeline(const inference_pipeline&) = delete;
  inference_pipeline& operator=(const inference_pipeline&) = delete;

  /// The model's results, in the order of model::results(), in the host's memory; or why there are none. It is called
  /// on a thread of the last stage, or of the one that failed, and must not throw.
  using completion = std::function<void(std::vector<tensor> results, std::exception_ptr failure)>;

  /// `of`: how many samples, and how far the model's extents go. `inputs`: plain tensors in the host's memory by
  /// model::inputs(), which nobody may write into any more. Once a piece has failed, others may end without a word.
  void start(std::size_t which, const microbatch_info& of, std::vector<tensor> inputs, completion done);

private:
  struct stage;
  struct piece;
  static void fetch_results(backend& ops, const segment& layers, piece& p);
  void post(const std::shared_ptr<piece>& p, std::size_t at);

  std::vector<std::shared_ptr<const model>> models_;
  std::vector<std::unique_ptr<stage>> stages_;
};

} // namespace penstock::actors
