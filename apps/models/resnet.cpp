// ResNet (He et al., arXiv:1512.03385), with the stride of a bottleneck at its 3x3 convolution as in torchvision, whose
// names and initialisers these are. A block's layers are contiguous: body, downsample, add, ReLU.
#include "apps/models/resnet.hpp"

#include "apps/models/network.hpp"

namespace penstock::apps {

namespace {

constexpr std::int64_t default_size = 224;
constexpr std::int64_t minimum_size = 32; // the five halvings then leave a pixel

enum class block_kind : std::uint8_t { basic, bottleneck };

struct block_args {
  std::string prefix;      // "layer1.0."
  std::int64_t inner = 64; // channels of the 3x3 convolutions
  std::int64_t outer = 64; // channels of the output
  std::int64_t stride = 1;
};

void add_conv_norm(network& net, const std::string& conv, const std::string& norm, std::int64_t out,
                   conv_geometry geometry) {
  net.conv(conv, out, geometry, false, kaiming_normal_fan_out(out, geometry.kernel));
  net.add(norm, layers::batch_norm2d(out));
}

void add_body(network& net, block_kind kind, const block_args& args) {
  const auto& p = args.prefix;
  if (kind == block_kind::basic) {
    add_conv_norm(net, p + "conv1", p + "bn1", args.inner, {.kernel = 3, .stride = args.stride, .padding = 1});
    net.relu(p + "relu1");
    add_conv_norm(net, p + "conv2", p + "bn2", args.outer, {.kernel = 3, .padding = 1});
    return;
  }
  add_conv_norm(net, p + "conv1", p + "bn1", args.inner, {.kernel = 1});
  net.relu(p + "relu1");
  add_conv_norm(net, p + "conv2", p + "bn2", args.inner, {.kernel = 3, .stride = args.stride, .padding = 1});
  net.relu(p + "relu2");
  add_conv_norm(net, p + "conv3", p + "bn3", args.outer, {.kernel = 1});
}

void add_block(network& net, block_kind kind, const block_args& args, bool downsample) {
  net.builder().freeze_unit();
  const auto input = net.last();
  add_body(net, kind, args);
  const auto body = net.last();
  auto shortcut = input;
  if (downsample) {
    net.continue_from(input);
    add_conv_norm(net, args.prefix + "downsample.0", args.prefix + "downsample.1", args.outer,
                  {.kernel = 1, .stride = args.stride});
    shortcut = net.last();
  }
  net.add(args.prefix + "add", layers::add(), {body, shortcut});
  net.relu(args.prefix + (kind == block_kind::basic ? "relu2" : "relu3"));
}

model build_resnet(const char* name, block_kind kind, std::array<int, 4> blocks, const model_options& options) {
  network net(name, options, default_size, minimum_size, 3, 0.0F);
  net.builder().freeze_unit();
  add_conv_norm(net, "conv1", "bn1", net.scaled(64), {.kernel = 7, .stride = 2, .padding = 3});
  net.relu("relu");
  net.max_pool("maxpool", {.kernel = 3, .stride = 2, .padding = 1});
  const std::int64_t expansion = kind == block_kind::basic ? 1 : 4;
  std::int64_t previous = 64; // unscaled, so that the width never decides which blocks have a downsample
  for (std::size_t group = 0; group < blocks.size(); ++group) {
    const std::int64_t planes = 64LL << group;
    for (int block = 0; block < blocks[group]; ++block) {
      block_args args;
      args.prefix = "layer" + std::to_string(group + 1) + "." + std::to_string(block) + ".";
      args.inner = net.scaled(planes);
      args.outer = net.scaled(planes * expansion);
      args.stride = group > 0 && block == 0 ? 2 : 1;
      add_block(net, kind, args, args.stride != 1 || previous != planes * expansion);
      previous = planes * expansion;
    }
  }
  net.builder().freeze_unit();
  net.add("avgpool", layers::adaptive_average_pool2d({1, 1}));
  net.add("flatten", layers::flatten());
  net.linear("fc", net.classes());
  return net.build();
}

} // namespace

model_entry resnet18_entry() {
  return {"resnet18", "ResNet, 18 layers, basic blocks", default_size, minimum_size, [](const model_options& options) {
            return build_resnet("resnet18", block_kind::basic, {2, 2, 2, 2}, options);
          }};
}

model_entry resnet50_entry() {
  return {"resnet50", "ResNet, 50 layers, bottleneck blocks", default_size, minimum_size,
          [](const model_options& options) {
            return build_resnet("resnet50", block_kind::bottleneck, {3, 4, 6, 3}, options);
          }};
}

} // namespace penstock::apps
