// Fits model and data to each other.
#include "apps/runner/prepare.hpp"

#include "apps/plugins/load_plugin.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace penstock::apps {

namespace {

// What the command line leaves open, the data set decides, and else the model.
model_options complete_options(const app_options& o, const model_entry& entry) {
  auto network = o.network;
  const auto facts = facts_of(o.data);
  if (facts.image_size != 0 && network.image_size != 0 && facts.image_size != network.image_size)
    throw usage_error(
        fmt::format("--image-size: found {}, wanted the {} of {}", network.image_size, facts.image_size, o.data));
  if (network.image_size == 0) network.image_size = facts.image_size;
  if (network.image_size == 0) network.image_size = entry.default_image_size;
  if (network.classes == 0) network.classes = facts.classes > 0 ? facts.classes : model_options{}.classes;
  network.channels = facts.channels;
  return network;
}

std::string describe_options(const app_options& o, const model& net, const model_options& network) {
  const auto& dims = net.value(net.input()).spec.dims;
  auto text = fmt::format("{} image_size={} channels={} classes={} width={}", o.model, network.image_size, dims.at(1),
                          network.classes, network.width);
  if (network.dropout >= 0) text += fmt::format(" dropout={}", network.dropout);
  return text + describe_replacements(o.replace_layers);
}

std::vector<int> cut_indices(const std::vector<std::string>& cuts, const model& net) {
  std::vector<std::string> names;
  for (const auto& layer : net.layers())
    names.push_back(layer.name);
  std::vector<int> indices;
  for (const auto& cut : cuts) {
    const auto found = std::find(names.begin(), names.end(), cut);
    if (found == names.end())
      throw usage_error("--cuts: " + net.name() + " has no layer '" + cut.substr(0, 80) + "'" +
                        did_you_mean(cut, names));
    indices.push_back(static_cast<int>(found - names.begin()));
    if (indices.back() == 0) throw usage_error("--cuts: '" + cut + "' is the first layer, nothing would be before it");
    if (indices.size() > 1 && indices.back() <= indices[indices.size() - 2])
      throw usage_error("--cuts: '" + cut + "' does not come after '" +
                        names[static_cast<std::size_t>(indices[indices.size() - 2])] + "' in " + net.name());
  }
  return indices;
}

void check_stages(const app_options& o, const model& net) {
  const auto stages = o.run.replicas.size();
  if (stages > net.layers().size())
    throw usage_error(fmt::format("--stages: found {}, wanted at most {}, the layers of {}", stages,
                                  net.layers().size(), net.name()));
}

// Found here and not after the data has been read.
void check_weights_file(const std::filesystem::path& file) {
  if (!file.empty() && ::access(file.c_str(), R_OK) != 0)
    throw error("--weights: cannot read " + file.string() + ": " + std::strerror(errno));
}

void take_data(const app_options& o, prepared_run& run) {
  run.inputs.train = run.data.train.get();
  run.inputs.test = run.data.test.get();
  run.notes.push_back(run.data.train->description());
  if (run.data.test) run.notes.push_back(run.data.test->description());
  if (!o.data_given) run.notes.emplace_back("no --data given: the images are synthetic");
  if (run.inputs.test == nullptr && o.run.eval_only) {
    run.inputs.test = run.inputs.train;
    run.notes.emplace_back("there is no test set: the training samples are evaluated");
  }
}

} // namespace

prepared_run prepare(const app_options& o, const plugin_registry& plugins) {
  const auto& entry = find_model(o.model);
  const auto network = complete_options(o, entry);
  prepared_run run;
  run.options = o.run;
  auto net = std::make_shared<const model>(apply_plugins(entry.build(network), o.replace_layers, plugins));
  check_stages(o, *net);
  check_weights_file(o.run.weights);
  run.options.cuts = cut_indices(o.cuts, *net);
  const auto& dims = net->value(net->input()).spec.dims;
  run.data = open_data({.spec = o.data,
                        .image_size = network.image_size,
                        .channels = dims.at(1),
                        .classes = network.classes,
                        .seed = o.run.seed,
                        .augment = o.augment,
                        .synthetic_samples = o.synthetic_samples});
  run.inputs.model_options = describe_options(o, *net, network);
  run.inputs.net = std::move(net);
  take_data(o, run);
  const auto samples = run.data.train->size();
  run.steps_per_epoch = samples / o.run.batch + (samples % o.run.batch != 0 ? 1 : 0);
  if (run.options.lr.total_steps == 0)
    run.options.lr.total_steps = o.run.steps > 0 ? o.run.steps : run.steps_per_epoch * o.run.epochs;
  return run;
}

} // namespace penstock::apps
