// AlexNet in the one-tower form (Krizhevsky, arXiv:1404.5997). Names are torchvision's, initialisers PyTorch's
// defaults.
#include "apps/models/alexnet.hpp"

#include "apps/models/network.hpp"

namespace penstock::apps {

namespace {

constexpr std::int64_t default_size = 224;
constexpr std::int64_t minimum_size = 64;

model build_alexnet(const model_options& options) {
  network net("alexnet", options, default_size, minimum_size, 3, 0.5F);
  net.conv("features.0", net.scaled(64), {.kernel = 11, .stride = 4, .padding = 2});
  net.relu("features.1");
  net.max_pool("features.2", {.kernel = 3, .stride = 2});
  net.conv("features.3", net.scaled(192), {.kernel = 5, .padding = 2});
  net.relu("features.4");
  net.max_pool("features.5", {.kernel = 3, .stride = 2});
  net.conv("features.6", net.scaled(384), {.kernel = 3, .padding = 1});
  net.relu("features.7");
  net.conv("features.8", net.scaled(256), {.kernel = 3, .padding = 1});
  net.relu("features.9");
  net.conv("features.10", net.scaled(256), {.kernel = 3, .padding = 1});
  net.relu("features.11");
  net.max_pool("features.12", {.kernel = 3, .stride = 2});
  net.add("avgpool", layers::adaptive_average_pool2d({6, 6}));
  net.add("flatten", layers::flatten());
  net.dropout("classifier.0");
  net.linear("classifier.1", net.scaled(4096));
  net.relu("classifier.2");
  net.dropout("classifier.3");
  net.linear("classifier.4", net.scaled(4096));
  net.relu("classifier.5");
  net.linear("classifier.6", net.classes());
  return net.build();
}

} // namespace

model_entry alexnet_entry() {
  return {"alexnet", "AlexNet (one tower, 2014)", default_size, minimum_size, build_alexnet};
}

} // namespace penstock::apps
