// The models that come with Penstock, and those that plug-ins add, by name.
#pragma once

#include "kernels/weights_adapter.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace penstock::apps {

inline constexpr std::int64_t largest_image = 4096; ///< pixels a side
inline constexpr std::int64_t most_classes = 1'000'000;
inline constexpr double widest = 16; ///< model_options::width

struct model_options {
  std::int64_t image_size = 0; ///< 0: the model's own default
  std::int64_t classes = 10;
  std::int64_t channels = 0;   ///< input channels; 0: the model's own (LeNet 1, the others 3)
  double width = 1.0;          ///< scales channels and hidden sizes: rounded to a multiple of 8, at least 8, when not 1
  double dropout = -1;         ///< below 0: the model's own rate
  std::int64_t vocabulary = 0; ///< tokens that a sequence model knows; 0: the model's own
  std::int64_t length = 0;     ///< tokens of a sequence, as profiles take it; 0: the model's own
  /// The model's own options that were given, by name without dashes; a switch has "yes".
  std::map<std::string, std::string> own{};
};

/// An option that only this model has.
struct own_option {
  std::string name;        ///< without dashes
  std::string placeholder; ///< of its value; "": a switch
  std::string help;
};

/// What a run takes where the command line does not say.
struct training_defaults {
  std::int64_t batch = 32;
  std::string optimizer = "sgd";
  float rate = 0; ///< with that optimizer; 0: the optimizer's usual one
  float label_smoothing = 0;
  float momentum = 0.9F;
  float weight_decay = 0;
  double clip_norm = 0; ///< of all gradients; where stages update apart, of each stage's own
  std::string schedule = "constant"; ///< of the learning rate, as --lr-schedule has it
};

struct model_entry {
  std::string name;    ///< "vgg16"
  std::string summary; ///< one line
  std::int64_t default_image_size = 224;
  std::int64_t minimum_image_size = 32;
  std::function<model(const model_options&)> build;
  bool takes_images = true; ///< false: sequences, to which image sizes and channels do not apply
  std::vector<own_option> options{};
  weights_adapter adapt_weights{}; ///< of --weights; may be empty
  training_defaults training{};
};

const std::vector<model_entry>& built_in_models();
void add_model(model_entry entry); ///< for plug-ins; throws usage_error for a name that is taken
/// Throws usage_error with the nearest name.
const model_entry& find_model(std::string_view name);
std::vector<const model_entry*> all_models();
/// Null where there is none of that name (yet: a plug-in may bring it).
const model_entry* known_model(std::string_view name);

} // namespace penstock::apps
