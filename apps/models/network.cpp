// Checks what a person may ask of a network, and adds its layers one behind the other.
#include "apps/models/network.hpp"

#include "apps/models/own_options.hpp"
#include "kernels/check.hpp"
#include "kernels/losses/cross_entropy.hpp"

#include <algorithm>
#include <cmath>

namespace penstock::apps {

namespace {

constexpr std::int64_t most_channels = 64;

void check_range(const std::string& name, const char* what, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) {
    throw usage_error(name + ": " + what + " " + std::to_string(value) + " is not in 1 to " + std::to_string(most));
  }
}

model_options checked(const std::string& name, model_options options, std::int64_t default_size,
                      std::int64_t default_channels) {
  if (options.image_size == 0) options.image_size = default_size;
  if (options.channels == 0) options.channels = default_channels;
  check_range(name, "image size", options.image_size, largest_image);
  check_range(name, "number of classes", options.classes, most_classes);
  check_range(name, "number of input channels", options.channels, most_channels);
  // Written so that NaN fails.
  if (!(options.width > 0 && options.width <= widest)) {
    throw usage_error(name + ": width " + std::to_string(options.width) + " is not above 0 and at most 16");
  }
  if (!(options.dropout < 1)) {
    throw usage_error(name + ": --dropout " + std::to_string(options.dropout) + " is not below 1");
  }
  return options;
}

std::array<std::int64_t, 2> square(std::int64_t size) {
  return {size, size};
}

std::string extents(std::int64_t size) {
  return std::to_string(size) + "x" + std::to_string(size);
}

} // namespace

network::network(std::string name, model_options options, std::int64_t default_size, std::int64_t minimum,
                 std::int64_t default_channels, float default_dropout)
    : name_(std::move(name)), options_(checked(name_, options, default_size, default_channels)), minimum_(minimum),
      dropout_(options_.dropout < 0 ? default_dropout : static_cast<float>(options_.dropout)),
      builder_(name_, {options_.channels, options_.image_size, options_.image_size}), last_(builder_.input()) {}

std::int64_t network::scaled(std::int64_t size) const {
  return apps::scaled(size, options_.width);
}

void network::add(const std::string& layer, layer_ptr op) {
  add(layer, std::move(op), {last_});
}

void network::add(const std::string& layer, layer_ptr op, std::vector<value_id> inputs) {
  if (first_layer_.empty()) first_layer_ = layer;
  last_ = builder_.add(layer, std::move(op), std::move(inputs));
}

void network::conv(const std::string& layer, std::int64_t out, conv_geometry geometry, bool bias,
                   std::optional<initializer> weight, std::optional<initializer> bias_init) {
  layers::conv2d_options options;
  options.in_channels = last_dims().at(1);
  options.out_channels = out;
  options.kernel = square(geometry.kernel);
  options.args.stride = square(geometry.stride);
  options.args.padding = square(geometry.padding);
  options.bias = bias;
  options.weight_init = weight;
  options.bias_init = bias_init;
  add(layer, layers::conv2d(options));
}

void network::linear(const std::string& layer, std::int64_t out, std::optional<initializer> weight,
                     std::optional<initializer> bias_init) {
  layers::linear_options options;
  options.in_features = last_dims().at(1);
  options.out_features = out;
  options.weight_init = weight;
  options.bias_init = bias_init;
  add(layer, layers::linear(options));
}

void network::max_pool(const std::string& layer, conv_geometry geometry) {
  pool2d_args args;
  args.kind = pool_kind::max;
  args.kernel = square(geometry.kernel);
  args.stride = square(geometry.stride);
  args.padding = square(geometry.padding);
  add(layer, layers::pool2d(args));
}

model network::build() {
  if (options_.image_size < minimum_) {
    throw usage_error(name_ + ": " + first_layer_ + ": input " + extents(options_.image_size) + " is smaller than " +
                      extents(minimum_) + ", the least this network takes");
  }
  if (!auxiliary_) return builder_.build(last_);
  const auto labels = builder_.input("labels", dtype::i64, {}, {.below = classes()});
  builder_.loss("loss", losses::cross_entropy(), {last_, labels});
  builder_.loss(auxiliary_->name, losses::cross_entropy(), {auxiliary_->logits, labels},
                {.weight = auxiliary_->weight, .training_only = true});
  return builder_.build();
}

initializer kaiming_normal_fan_out(std::int64_t out, std::int64_t kernel) {
  const double fan = static_cast<double>(out * kernel * kernel);
  return {initializer_kind::normal, static_cast<float>(std::sqrt(2.0 / fan))};
}

} // namespace penstock::apps
