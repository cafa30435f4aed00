// The manifest of a checkpoint: where the run stood and what its stage files are. Read as if a stranger had written it.
#pragma once

#include "actors/checkpoint/training_record.hpp"
#include "actors/policy/asgd_trigger.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::actors {

/// Where the run stands; everything random derives from seed and step, so this is also the random state.
struct checkpoint_position {
  std::string model; ///< must agree on resume (run_inputs::model_options)
  std::string optimizer;
  std::string schedule;
  std::int64_t step = 0; ///< minibatches done
  std::int64_t batch = 0;
  std::int64_t samples = 0; ///< of the training data
  std::uint64_t seed = 0;
  std::vector<std::int64_t> drains;
  training_record options;  ///< may differ on resume, which is then said
  double learning_rate = 0; ///< of the last minibatch done, or of the first where none is
  bool drops_last_batch = false;
  asgd_trigger::history evaluations{}; ///< where they decide something
  bool has_frozen = false;             ///< layers, under a plan of the run: they have had fewer updates than steps say
};

struct manifest_stage {
  std::string file; ///< name within the checkpoint's folder
  std::uint64_t bytes = 0;
  std::string sha256;
  std::string first_layer;
  std::int64_t layers = 0;
  std::size_t replicas = 1;
  std::int64_t frozen_layers = 0; ///< of them, the first ones
  std::int64_t version = 0;
  std::map<std::string, std::int64_t> optimizer_steps; ///< by parameter
};

struct checkpoint_manifest {
  checkpoint_position at;
  std::vector<manifest_stage> stages;
  std::string sha256; ///< of all the rest, as compact JSON with sorted keys
};

/// As JSON for people. Sets `sha256`.
std::string to_text(checkpoint_manifest& manifest);

/// Reads what to_text wrote for the checkpoint of that step. Throws penstock::error, one line that begins with `source`
/// and names the member, what was found and what was wanted: members missing, unknown, doubled, of another type or out
/// of range, numbers that contradict each other, a digest that is not that of the rest.
checkpoint_manifest manifest_from_text(const std::string& text, const std::string& source, std::int64_t step);

/// "step-0000000200", the folder of a checkpoint, and back: nothing for any other name.
std::string checkpoint_folder_name(std::int64_t step);
std::optional<std::int64_t> step_of_folder(std::string_view name);

} // namespace penstock::actors
