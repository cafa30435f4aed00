// Inception-v3 (Szegedy et al., arXiv:1512.00567). Names and initialisers are torchvision's: convolutions without bias
// and linear layers' weights from a normal of deviation 0.1 cut at +-2, each convolution followed by batch
// normalisation with epsilon 1e-3 and ReLU. The branches of a block follow one another, its concatenation comes last.
#include "apps/models/inception_v3.hpp"

#include "apps/models/network.hpp"

#include <cmath>

namespace penstock::apps {

namespace {

constexpr std::int64_t default_size = 299;
constexpr std::int64_t minimum_size = 75;
constexpr std::int64_t smallest_with_auxiliary = 299; // its pooling and its 5x5 convolution want 17 pixels then
constexpr float auxiliary_weight = 0.4F;
constexpr auto weight_init = truncated_normal(0.1F);

using pair = std::array<std::int64_t, 2>;

/// A convolution with its normalisation and ReLU.
struct unit {
  const char* name;
  std::int64_t channels;
  pair kernel{1, 1};
  pair padding{0, 0};
  std::int64_t stride = 1;
};

void add_unit(network& net, const std::string& prefix, const unit& u) {
  layers::conv2d_options options;
  options.in_channels = net.last_dims().at(1);
  options.out_channels = net.scaled(u.channels);
  options.kernel = u.kernel;
  options.args.stride = {u.stride, u.stride};
  options.args.padding = u.padding;
  options.bias = false;
  options.weight_init = weight_init;
  const auto name = prefix + u.name;
  net.add(name + ".conv", layers::conv2d(options));
  net.add(name + ".bn", layers::batch_norm2d(options.out_channels, {.epsilon = 1e-3F}));
  net.relu(name + ".relu");
}

void add_average_pool(network& net, const std::string& name) {
  net.add(name, layers::pool2d({.kind = pool_kind::average, .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}));
}

/// A block whose branches all begin with its input and end in its concatenation.
class block {
public:
  block(network& net, const std::string& name) : net_(net), prefix_(name + "."), input_(net.last()) {
    net.builder().freeze_unit();
  }

  /// Ends in its last unit.
  void branch(std::initializer_list<unit> units) {
    add_all(units);
    ends_.push_back(net_.last());
  }
  /// The same, where two more units read the last of them and both are ends.
  void forked_branch(std::initializer_list<unit> units, const unit& left, const unit& right) {
    add_all(units);
    const auto fork = net_.last();
    for (const unit& end : {left, right}) {
      net_.continue_from(fork);
      add_unit(net_, prefix_, end);
      ends_.push_back(net_.last());
    }
  }
  void average_branch(std::int64_t channels) {
    net_.continue_from(input_);
    add_average_pool(net_, prefix_ + "avgpool");
    add_unit(net_, prefix_, {"branch_pool", channels});
    ends_.push_back(net_.last());
  }
  void max_branch() {
    net_.continue_from(input_);
    net_.max_pool(prefix_ + "maxpool", {.kernel = 3, .stride = 2});
    ends_.push_back(net_.last());
  }
  void end() { net_.add(prefix_ + "concat", layers::concat(), ends_); }

private:
  void add_all(std::initializer_list<unit> units) {
    net_.continue_from(input_);
    for (const unit& u : units)
      add_unit(net_, prefix_, u);
  }

  network& net_;
  std::string prefix_;
  value_id input_;
  std::vector<value_id> ends_;
};

constexpr pair one_by_three{1, 3}, three_by_one{3, 1}, one_by_seven{1, 7}, seven_by_one{7, 1};
constexpr pair across_three{0, 1}, along_three{1, 0}, across_seven{0, 3}, along_seven{3, 0}; // paddings of those

void add_block_a(network& net, const char* name, std::int64_t pool_channels) {
  block b(net, name);
  b.branch({{"branch1x1", 64}});
  b.branch({{"branch5x5_1", 48}, {"branch5x5_2", 64, {5, 5}, {2, 2}}});
  b.branch({{"branch3x3dbl_1", 64}, {"branch3x3dbl_2", 96, {3, 3}, {1, 1}}, {"branch3x3dbl_3", 96, {3, 3}, {1, 1}}});
  b.average_branch(pool_channels);
  b.end();
}

void add_block_b(network& net, const char* name) {
  block b(net, name);
  b.branch({{"branch3x3", 384, {3, 3}, {}, 2}});
  b.branch({{"branch3x3dbl_1", 64}, {"branch3x3dbl_2", 96, {3, 3}, {1, 1}}, {"branch3x3dbl_3", 96, {3, 3}, {}, 2}});
  b.max_branch();
  b.end();
}

void add_block_c(network& net, const char* name, std::int64_t inner) {
  block b(net, name);
  b.branch({{"branch1x1", 192}});
  b.branch({{"branch7x7_1", inner},
            {"branch7x7_2", inner, one_by_seven, across_seven},
            {"branch7x7_3", 192, seven_by_one, along_seven}});
  b.branch({{"branch7x7dbl_1", inner},
            {"branch7x7dbl_2", inner, seven_by_one, along_seven},
            {"branch7x7dbl_3", inner, one_by_seven, across_seven},
            {"branch7x7dbl_4", inner, seven_by_one, along_seven},
            {"branch7x7dbl_5", 192, one_by_seven, across_seven}});
  b.average_branch(192);
  b.end();
}

void add_block_d(network& net, const char* name) {
  block b(net, name);
  b.branch({{"branch3x3_1", 192}, {"branch3x3_2", 320, {3, 3}, {}, 2}});
  b.branch({{"branch7x7x3_1", 192},
            {"branch7x7x3_2", 192, one_by_seven, across_seven},
            {"branch7x7x3_3", 192, seven_by_one, along_seven},
            {"branch7x7x3_4", 192, {3, 3}, {}, 2}});
  b.max_branch();
  b.end();
}

void add_block_e(network& net, const char* name) {
  block b(net, name);
  b.branch({{"branch1x1", 320}});
  b.forked_branch({{"branch3x3_1", 384}}, {"branch3x3_2a", 384, one_by_three, across_three},
                  {"branch3x3_2b", 384, three_by_one, along_three});
  b.forked_branch({{"branch3x3dbl_1", 448}, {"branch3x3dbl_2", 384, {3, 3}, {1, 1}}},
                  {"branch3x3dbl_3a", 384, one_by_three, across_three},
                  {"branch3x3dbl_3b", 384, three_by_one, along_three});
  b.average_branch(192);
  b.end();
}

// torchvision's transform_input: images normalised by ImageNet's means and deviations become (pixel - 0.5) / 0.5, which
// the published weights expect; they come from TensorFlow.
void add_input_transform(network& net) {
  constexpr std::array<double, 3> mean{0.485, 0.456, 0.406}, deviation{0.229, 0.224, 0.225};
  std::vector<float> scale, shift;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    scale.push_back(static_cast<float>(deviation.at(c) / 0.5));
    shift.push_back(static_cast<float>((mean.at(c) - 0.5) / 0.5));
  }
  net.add("transform_input", layers::scale_channels(std::move(scale), std::move(shift)));
}

void add_stem(network& net) {
  const auto add = [&](const unit& u) {
    net.builder().freeze_unit();
    add_unit(net, "", u);
  };
  add({"Conv2d_1a_3x3", 32, {3, 3}, {}, 2});
  add({"Conv2d_2a_3x3", 32, {3, 3}});
  add({"Conv2d_2b_3x3", 64, {3, 3}, {1, 1}});
  net.max_pool("maxpool1", {.kernel = 3, .stride = 2});
  add({"Conv2d_3b_1x1", 80});
  add({"Conv2d_4a_3x3", 192, {3, 3}});
  net.max_pool("maxpool2", {.kernel = 3, .stride = 2});
}

// The biases are torch.nn.Linear's own: torchvision initialises weights alone. It means conv1's deviation to be 0.01
// and sets that where nothing reads it.
void add_auxiliary_head(network& net) {
  const auto trunk = net.last();
  const std::string prefix = "AuxLogits.";
  net.builder().freeze_unit();
  net.add(prefix + "avgpool", layers::pool2d({.kind = pool_kind::average, .kernel = {5, 5}, .stride = {3, 3}}));
  add_unit(net, prefix, {"conv0", 128});
  add_unit(net, prefix, {"conv1", 768, {5, 5}});
  net.add(prefix + "adaptive_avgpool", layers::adaptive_average_pool2d({1, 1}));
  net.add(prefix + "flatten", layers::flatten());
  net.linear(prefix + "fc", net.classes(), truncated_normal(0.001F));
  net.auxiliary_loss("auxiliary", auxiliary_weight);
  net.continue_from(trunk);
}

model build_inception_v3(const model_options& options) {
  network net("inception_v3", options, default_size, minimum_size, 3, 0.5F);
  if (options.own.contains("transform-input")) add_input_transform(net);
  add_stem(net);
  add_block_a(net, "Mixed_5b", 32);
  add_block_a(net, "Mixed_5c", 64);
  add_block_a(net, "Mixed_5d", 64);
  add_block_b(net, "Mixed_6a");
  add_block_c(net, "Mixed_6b", 128);
  add_block_c(net, "Mixed_6c", 160);
  add_block_c(net, "Mixed_6d", 160);
  add_block_c(net, "Mixed_6e", 192);
  if (!options.own.contains("no-aux") && net.options().image_size >= smallest_with_auxiliary) add_auxiliary_head(net);
  add_block_d(net, "Mixed_7a");
  add_block_e(net, "Mixed_7b");
  add_block_e(net, "Mixed_7c");
  net.builder().freeze_unit();
  net.add("avgpool", layers::adaptive_average_pool2d({1, 1}));
  net.dropout("dropout");
  net.add("flatten", layers::flatten());
  net.linear("fc", net.classes(), weight_init);
  return net.build();
}

} // namespace

model_entry inception_v3_entry() {
  return {"inception_v3",
          "Inception-v3, branches side by side",
          default_size,
          minimum_size,
          build_inception_v3,
          true,
          {{"no-aux", "", "Without the auxiliary head, which serves training alone, from 299 pixels on"},
           {"transform-input", "", "Images as the published weights expect them, of ones normalised as ImageNet's"}}};
}

} // namespace penstock::apps
