// A small network with everything that can go wrong between stages (skip connection, BatchNorm, dropout), a data set
// of random images, and one call that trains and returns the summary.
#pragma once

#include "actors/labelled_images.hpp"
#include "actors/policy/settle_plan.hpp"
#include "actors/trainer.hpp"

#include <vector>

namespace penstock::testing {

/// Random images and labels from the seed; `samples` need not divide by anything.
class random_images : public actors::labelled_images {
public:
  random_images(std::int64_t samples, shape dims, std::int64_t classes, std::uint64_t seed);
  std::int64_t size() const override { return samples_; }
  tensor_spec input() const override { return {dtype::f32, dims_}; }
  std::int64_t classes() const override { return classes_; }
  std::int64_t load(const actors::sample_key& key, bool training, float* input) const override;
  std::string description() const override { return "random images"; }

private:
  std::int64_t samples_;
  shape dims_;
  std::int64_t classes_;
  std::uint64_t seed_;
};

/// conv1 bn1 relu1 conv2 bn2 add relu2 pool flatten drop fc1 relu3 fc2 on 3x8x8 images, 5 classes.
std::shared_ptr<const model> tiny_residual_network(float dropout = 0.25F);

/// Keeps what a run reports.
class recording_observer : public actors::run_observer {
public:
  void on_step(const actors::step_event& e) override {
    steps.push_back(e);
    if (control != nullptr && e.step == stop_at) control->stop = true;
    if (control != nullptr && e.step == checkpoint_at) control->checkpoint = true;
    if (control != nullptr && at_step) at_step(e.step, *control);
  }
  void on_eval(const actors::eval_event& e) override { evaluations.push_back(e); }
  void on_checkpoint(const std::filesystem::path&, std::int64_t step) override { checkpoints.push_back(step); }
  void on_note(const std::string& line) override { notes.push_back(line); }
  void on_progress(const actors::part_progress& p) override {
    const bool evaluates = p.what == "evaluating" && p.done > 0;
    if (control != nullptr && stop_in_evaluation && evaluates) control->stop = true;
  }
  std::vector<actors::step_event> steps;
  std::vector<actors::eval_event> evaluations;
  std::vector<std::int64_t> checkpoints;
  std::vector<std::string> notes;
  actors::run_control* control = nullptr;
  std::int64_t stop_at = 0;       ///< asks the run to end when this step is reported
  std::int64_t checkpoint_at = 0; ///< asks for a checkpoint
  bool stop_in_evaluation = false;
  std::function<void(std::int64_t, actors::run_control&)> at_step{}; ///< of rank 0's control
};

struct training_result {
  actors::run_summary summary;
  recording_observer seen;
};

/// A run as a test says it: options, and the pipeline that is asked for.
struct run_setup : actors::run_options, actors::pipeline_request {};

/// A short run of the tiny network: 44 samples, batch 8 (a tail of 4), two epochs with evaluation between.
run_setup tiny_options();
struct tiny_extras {
  std::vector<std::shared_ptr<const actors::layer_actor_factory>> layer_actors{};
  std::shared_ptr<const model> net{};     ///< instead of the tiny residual network
  const actors::dataset* train = nullptr; ///< instead of `samples` random images
  const actors::dataset* test = nullptr;  ///< instead of 20 random images
  std::int64_t samples = 44;
  std::int64_t stop_at = 0;
  std::int64_t checkpoint_at = 0;
  bool stop_in_evaluation = false;
  std::vector<actors::run_control>* wishes = nullptr;                       ///< of the ranks, where a test has its own
  std::vector<std::pair<std::int64_t, actors::pipeline_request>> changes{}; ///< of the plan, by step
  std::function<void(std::int64_t, actors::run_control&)> at_step{};        ///< on rank 0, after each step
};
training_result train_tiny(const run_setup& options, const tiny_extras& extras = {});

/// The same run in so many ranks, threads of this process with messages between them that overtake each other at
/// random; rank 0's result. `stop_at` and `checkpoint_at` are asked for on the last rank, by what rank 0 sees. Throws
/// what rank 0 throws.
training_result train_tiny_ranks(const run_setup& options, int ranks, const tiny_extras& extras = {},
                                 std::uint64_t seed = 1);

} // namespace penstock::testing
