// LeNet-5 with ReLU and max pooling (LeCun et al., 1998, modernised). Initialisers are PyTorch's defaults.
#include "apps/models/lenet.hpp"

#include "apps/models/network.hpp"

namespace penstock::apps {

namespace {

constexpr std::int64_t default_size = 28;
constexpr std::int64_t minimum_size = 28;

model build_lenet(const model_options& options) {
  network net("lenet", options, default_size, minimum_size, 1, 0.0F);
  net.conv("conv1", net.scaled(6), {.kernel = 5, .padding = 2});
  net.relu("relu1");
  net.max_pool("pool1", {.kernel = 2, .stride = 2});
  net.conv("conv2", net.scaled(16), {.kernel = 5});
  net.relu("relu2");
  net.max_pool("pool2", {.kernel = 2, .stride = 2});
  net.add("flatten", layers::flatten());
  net.linear("fc1", net.scaled(120));
  net.relu("relu3");
  net.linear("fc2", net.scaled(84));
  net.relu("relu4");
  net.linear("fc3", net.classes());
  return net.build();
}

} // namespace

model_entry lenet_entry() {
  return {"lenet", "LeNet-5 with ReLU, for 28-pixel grey images", default_size, minimum_size, build_lenet};
}

} // namespace penstock::apps
