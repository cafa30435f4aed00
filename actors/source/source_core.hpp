// What a source decides: which micro-batch to load, which to admit. No actor, thread or clock.
#pragma once

#include "actors/run/stretch.hpp"
#include "actors/stage/messages.hpp"

#include <functional>
#include <map>
#include <variant>
#include <vector>

namespace penstock::actors {

/// One micro-batch as it was loaded.
struct loaded_microbatch {
  microbatch_info info;
  std::vector<tensor> inputs; ///< by model::inputs(): plain, [samples, ...]; "none" when empty
};

/// A stage that reads inputs of the model.
struct input_reader {
  int stage = 0;
  std::vector<int> inputs; ///< indices in model::inputs(), in the order of its segment::fed()
};

/// Where a source stands in its plan epoch. Each rank that hosts replicas of stage 0 has one, which admits what is
/// dealt to those.
struct source_place {
  std::int64_t plan_epoch = 0;
  std::vector<std::string> inputs;   ///< names, by model::inputs()
  std::vector<input_reader> readers; ///< stage 0 first
  int replicas = 1;                  ///< of stage 0, in all
  std::vector<int> local;            ///< of them, on this rank
  int evaluating = 0;                ///< of them, those that evaluations are dealt to; 0: all
  std::int64_t ahead = 4;            ///< micro-batches asked for before they can be admitted
  int first_active = 0;              ///< the stage whose backward gives a credit back
};

/// Coordinator to the source: batches of an evaluation.
struct admit_evaluation_msg {
  std::int64_t stretch = 0;
  std::int64_t batches = 0;
  std::int64_t credit = 1; ///< of all replicas of stage 0 together
};

struct load_microbatch {
  message_key key; ///< its answer goes to source_core::loaded
};
struct admit_microbatch {
  activation_msg activation;   ///< to stage 0
  std::vector<inputs_msg> fed; ///< to the other stages that read inputs
};
/// The answer to a pause.
struct admitted_so_far {
  std::int64_t stretch = 0;
  std::int64_t minibatches = 0; ///< of the stretch, the last of them perhaps in part
};
struct all_is_admitted {}; ///< and has left the pipeline
using source_effect = std::variant<load_microbatch, admit_microbatch, admitted_so_far, all_is_admitted>;
using source_effects = std::vector<source_effect>;

/// Owns the position in the data. Admits in order, one micro-batch for each credit.
class source_core {
public:
  explicit source_core(source_place place) : place_(std::move(place)) {}

  [[nodiscard]] source_effects on(const begin_training_msg& m);
  [[nodiscard]] source_effects on(const admit_evaluation_msg& m);
  [[nodiscard]] source_effects on(const end_after_msg& m);
  /// Admit nothing until end_after_msg comes.
  [[nodiscard]] source_effects pause();
  [[nodiscard]] source_effects on(const credit_msg& m);
  [[nodiscard]] source_effects loaded(const message_key& key, loaded_microbatch data);

  /// What the next micro-batch waits for.
  enum class wait : std::uint8_t { nothing, credit, data };
  wait waits_for() const;
  message_key next_key() const { return key_at(next_); }
  std::string describe() const;

private:
  void restart(message_key first, std::int64_t minibatches, int microbatches, std::int64_t credit);
  void pump(source_effects& out);
  void load_ahead(source_effects& out);
  std::vector<named_tensor> read_by(const input_reader& reader, const loaded_microbatch& data) const;
  message_key key_at(std::int64_t index) const;
  bool is_ours(std::int64_t index) const;
  std::int64_t next_of_ours(std::int64_t index) const;

  source_place place_;
  message_key base_; // of the first micro-batch
  bool begun_ = false;
  int microbatches_ = 1;
  std::int64_t total_ = 0;   // micro-batches of the stretch, whoever admits them
  std::int64_t next_ = 0;    // first index not yet dealt with
  std::int64_t request_ = 0; // first index not yet asked for
  std::int64_t last_admitted_ = -1;
  std::int64_t admitted_ = 0;  // by this source
  std::int64_t requested_ = 0; // by this source
  std::int64_t credit_ = 0;
  std::int64_t returned_ = 0;
  bool paused_ = false;
  bool is_done_ = true;                             // and has said so
  std::map<std::int64_t, loaded_microbatch> ready_; // by index
};

} // namespace penstock::actors
