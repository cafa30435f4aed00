// Fits a model's options to its data set, and builds it.
#include "apps/runner/network.hpp"

#include "apps/plugins/load_plugin.hpp"
#include "apps/runner/data_facts.hpp"
#include "apps/runner/of_option.hpp"
#include "kernels/check.hpp"

#include <fmt/format.h>

namespace penstock::apps {

namespace {

// What the command line leaves open, the data set decides, and else the model.
model_options complete_options(const app_options& o, const model_entry& entry) {
  auto network = o.network;
  for (const auto& [name, value] : o.own_texts)
    if (!value.empty()) network.own[name] = value;
  for (const auto& [name, is_set] : o.own_switches)
    if (is_set) network.own[name] = "yes";
  const auto facts = of_option("--data", [&] { return facts_of(o.data, o.text); });
  if (network.vocabulary == 0) network.vocabulary = facts.vocabulary;
  if (network.vocabulary < facts.vocabulary)
    throw usage_error(fmt::format("--vocabulary: found {}, wanted at least the {} {}", network.vocabulary,
                                  facts.vocabulary,
                                  facts.frame_size > 0 ? "words of --data" : "tokens of --tokenizer"));
  if (facts.frame_size > 0) network.own.try_emplace("frame-size", std::to_string(facts.frame_size));
  if (!entry.takes_images) {
    if (network.classes == 0) network.classes = facts.classes > 0 ? facts.classes : model_options{}.classes;
    return network;
  }
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
  std::string text;
  if (find_model(o.model).takes_images) {
    const auto& dims = net.value(net.input()).spec.dims;
    text = fmt::format("{} image_size={} channels={} classes={} width={}", o.model, network.image_size, dims.at(1),
                       network.classes, network.width);
  } else {
    text = o.model; // what is 0 is the model's own
    if (network.vocabulary > 0) text += fmt::format(" vocabulary={}", network.vocabulary);
    text += fmt::format(" classes={} width={}", network.classes, network.width);
    if (network.length > 0) text += fmt::format(" length={}", network.length);
  }
  for (const auto& [name, value] : network.own)
    text += fmt::format(" {}={}", name, value);
  if (network.dropout >= 0) text += fmt::format(" dropout={}", network.dropout);
  return text + describe_replacements(o.replace_layers);
}

// A layer that has no pixels left says so; who gave the size looks for its option. Below the least, a model of a
// plug-in may well go on.
model build_of_size(const model_entry& entry, const model_options& network) {
  try {
    return entry.build(network);
  } catch (const usage_error& fault) {
    if (!entry.takes_images || network.image_size >= entry.minimum_image_size) throw;
    throw usage_error(fmt::format("--image-size: found {}, wanted at least the {} of {} ({})", network.image_size,
                                  entry.minimum_image_size, entry.name, fault.what()));
  }
}

} // namespace

built_network build_network(const app_options& options, const plugin_registry& plugins) {
  const auto& entry = find_model(options.model);
  built_network built;
  built.network = complete_options(options, entry);
  const auto plain = build_of_size(entry, built.network);
  built.net = std::make_shared<const model>(
      of_option("--replace-layer", [&] { return apply_plugins(plain, options.replace_layers, plugins); }));
  built.description = describe_options(options, *built.net, built.network);
  return built;
}

} // namespace penstock::apps
