// Lists models and layers as tables of plain text.
#include "apps/models/describe.hpp"

#include "kernels/text_table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace penstock::apps {

namespace {

constexpr auto left = cell_side::left;
constexpr auto right = cell_side::right;

/// "138,357,544"
std::string grouped(std::int64_t number) {
  auto digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string giga(double operations) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), operations >= 1e9 ? "%.1f" : "%.4f", operations * 1e-9);
  return text.data();
}

/// "64 x 56 x 56", the batch left out.
std::string extents(const shape& dims) {
  std::string text;
  for (std::size_t i = 1; i < dims.size(); ++i)
    text += (i == 1 ? "" : " x ") + std::to_string(dims[i]);
  return text;
}

std::int64_t parameter_count(const model& network, int layer) {
  std::int64_t count = 0;
  for (const auto& spec : network.parameters(layer))
    count += element_count(spec.dims);
  return count;
}

double forward_flops(const model& network, int layer) {
  return network.layers().at(static_cast<std::size_t>(layer)).op->forward_flops(network.input_specs(layer));
}

} // namespace

double forward_flops(const model& network) {
  double sum = 0;
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer)
    sum += forward_flops(network, layer);
  return sum;
}

std::string describe_models() {
  std::vector<std::vector<std::string>> rows{
      {"model", "parameters", "layers", "image", "least", "GFLOP", "what it is"}};
  for (const auto* entry : all_models()) {
    const auto network = entry->build(model_options{});
    rows.push_back({entry->name, grouped(network.parameter_count()), std::to_string(network.layers().size()),
                    entry->takes_images ? std::to_string(entry->default_image_size) : "-",
                    entry->takes_images ? std::to_string(entry->minimum_image_size) : "-", giga(forward_flops(network)),
                    entry->summary});
  }
  return lay_out_table(rows, {{left, right, right, right, right, right, left}, "", output_columns()}) +
         fold_lines(
             "Image: default size in pixels; least: smallest size; GFLOP: forward pass of one image at the default "
             "size, a multiply-add counting two. Parameters with " +
                 std::to_string(model_options{}.classes) + " classes.\n",
             output_columns());
}

std::string describe_model(const model& network) {
  std::vector<std::vector<std::string>> rows{{"#", "layer", "kind", "output", "parameters", "GFLOP"}};
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer) {
    const auto& l = network.layers()[static_cast<std::size_t>(layer)];
    const auto count = parameter_count(network, layer);
    const auto flops = forward_flops(network, layer);
    rows.push_back({std::to_string(layer), l.name, std::string(l.op->kind()),
                    extents(network.value(l.outputs.front()).spec.dims), count > 0 ? grouped(count) : "",
                    flops > 0 ? giga(flops) : ""});
  }
  const auto input = extents(network.value(network.input()).spec.dims);
  return network.name() + ": input " + input + ", " + std::to_string(network.classes()) + " classes, " +
         grouped(network.parameter_count()) + " parameters, " + giga(forward_flops(network)) +
         " GFLOP forward per image\n\n" +
         lay_out_table(rows, {{right, left, left, left, right, right}, "", output_columns()});
}

} // namespace penstock::apps
