// VGG (Simonyan and Zisserman, arXiv:1409.1556). Names and initialisers are torchvision's: convolutions Kaiming normal
// by fan-out, linear layers N(0, 0.01^2), biases zero. The 7x7 average pool and the wide classifier stay at small
// images.
#include "apps/models/vgg.hpp"

#include "apps/models/network.hpp"

namespace penstock::apps {

namespace {

constexpr std::int64_t default_size = 224;
constexpr std::int64_t minimum_size = 32; // five poolings by two
constexpr std::int64_t pool = 0;          // stands for 2x2 max pooling in a configuration

constexpr std::int64_t vgg11[] = {64, pool, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool};
constexpr std::int64_t vgg16[] = {64,   64,  pool, 128, 128,  pool, 256, 256, 256,
                                  pool, 512, 512,  512, pool, 512,  512, 512, pool};

void add_linear(network& net, const std::string& layer, std::int64_t out) {
  net.linear(layer, out, initializer{initializer_kind::normal, 0.01F}, zero_init);
}

model build_vgg(const char* name, std::span<const std::int64_t> configuration, const model_options& options) {
  network net(name, options, default_size, minimum_size, 3, 0.5F);
  int index = 0;
  const auto next = [&] { return "features." + std::to_string(index++); };
  for (const auto channels : configuration) {
    if (channels == pool) {
      net.max_pool(next(), {.kernel = 2, .stride = 2});
      continue;
    }
    const auto out = net.scaled(channels);
    net.conv(next(), out, {.kernel = 3, .padding = 1}, true, kaiming_normal_fan_out(out, 3), zero_init);
    net.relu(next());
  }
  net.add("avgpool", layers::adaptive_average_pool2d({7, 7}));
  net.add("flatten", layers::flatten());
  add_linear(net, "classifier.0", net.scaled(4096));
  net.relu("classifier.1");
  net.dropout("classifier.2");
  add_linear(net, "classifier.3", net.scaled(4096));
  net.relu("classifier.4");
  net.dropout("classifier.5");
  add_linear(net, "classifier.6", net.classes());
  return net.build();
}

} // namespace

model_entry vgg11_entry() {
  return {"vgg11", "VGG, 11 layers, no batch normalisation", default_size, minimum_size,
          [](const model_options& options) { return build_vgg("vgg11", vgg11, options); }};
}

model_entry vgg16_entry() {
  return {"vgg16", "VGG, 16 layers, no batch normalisation", default_size, minimum_size,
          [](const model_options& options) { return build_vgg("vgg16", vgg16, options); }};
}

} // namespace penstock::apps
