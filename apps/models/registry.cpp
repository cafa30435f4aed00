// The list of models.
#include "apps/models/registry.hpp"

#include "apps/models/alexnet.hpp"
#include "apps/models/awd_lm.hpp"
#include "apps/models/bert.hpp"
#include "apps/models/gnmt.hpp"
#include "apps/models/inception_v3.hpp"
#include "apps/models/lenet.hpp"
#include "apps/models/resnet.hpp"
#include "apps/models/s2vt.hpp"
#include "apps/models/vgg.hpp"
#include "apps/models/vit.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <deque>

namespace penstock::apps {

namespace {

// A deque, so that entries stay where they are while plug-ins add theirs.
std::deque<model_entry>& plug_in_models() {
  static std::deque<model_entry> models;
  return models;
}

} // namespace

const std::vector<model_entry>& built_in_models() {
  static const std::vector<model_entry> models{
      lenet_entry(),    alexnet_entry(),      vgg11_entry(),      vgg16_entry(), resnet18_entry(),
      resnet50_entry(), inception_v3_entry(), vit_b_16_entry(),   bert_entry(),  awd_lm_entry(),
      gnmt8_entry(),    gnmt16_entry(),       gnmt_large_entry(), s2vt_entry()};
  return models;
}

void add_model(model_entry entry) {
  if (entry.name.empty() || !entry.build) throw usage_error("a model needs a name and a function that builds it");
  for (const auto* known : all_models()) {
    if (known->name == entry.name) throw usage_error("model '" + entry.name + "' exists already");
  }
  plug_in_models().push_back(std::move(entry));
}

const model_entry& find_model(std::string_view name) {
  std::vector<std::string> names;
  for (const auto* entry : all_models()) {
    if (entry->name == name) return *entry;
    names.push_back(entry->name);
  }
  throw usage_error("no model '" + std::string(name) + "'" + did_you_mean(name, names) +
                    "; there are: " + join(names, ", "));
}

const model_entry* known_model(std::string_view name) {
  for (const auto* entry : all_models())
    if (entry->name == name) return entry;
  return nullptr;
}

std::vector<const model_entry*> all_models() {
  std::vector<const model_entry*> models;
  for (const auto& entry : built_in_models())
    models.push_back(&entry);
  for (const auto& entry : plug_in_models())
    models.push_back(&entry);
  return models;
}

} // namespace penstock::apps
