// Models with layers exchanged: which layers, what stays, and what is refused.
#include "apps/plugins/load_plugin.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

using testing::HasSubstr;

/// Says of itself what shapes it gives; never run.
class stand_in : public layer {
public:
  using rule = std::function<std::vector<tensor_spec>(const tensor_spec&)>;
  stand_in(std::string kind, rule outputs) : kind_(std::move(kind)), outputs_(std::move(outputs)) {}
  std::string_view kind() const override { return kind_; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override { return outputs_(inputs[0]); }
  forward_result forward(run_context&, std::span<tensor>, std::span<const tensor>) const override { return {}; }
  backward_result backward(run_context&, std::span<tensor>, std::span<const tensor>,
                           std::span<const tensor>) const override {
    return {};
  }

private:
  std::string kind_;
  rule outputs_;
};

plugin_registry stand_ins() {
  plugin_registry registry;
  const auto add = [&](const std::string& name, stand_in::rule rule) {
    registry.add_layer(name, "", [name, rule](std::string_view options) {
      return std::make_shared<stand_in>(name + std::string(options), rule);
    });
  };
  using specs = std::vector<tensor_spec>;
  add("same", [](const tensor_spec& x) { return specs{x}; });
  add("other", [](const tensor_spec& x) { return specs{x}; });
  add("wider", [](tensor_spec x) {
    x.dims.back() += 1;
    return specs{x};
  });
  add("twins", [](const tensor_spec& x) { return specs{x, x}; });
  return registry;
}

model lenet() {
  return find_model("lenet").build({.classes = 10});
}

std::string kind_of(const model& net, const std::string& name) {
  for (const auto& l : net.layers())
    if (l.name == name) return std::string(l.op->kind());
  return "no such layer";
}

std::string refusal(const std::vector<std::string>& replacements) {
  const auto registry = stand_ins();
  try {
    apply_plugins(lenet(), replacements, registry);
  } catch (const usage_error& e) {
    return e.what();
  }
  return "not refused";
}

TEST(ReplaceLayers, ReplacesEveryLayerOfAKind) {
  const auto before = lenet();
  const auto after = apply_plugins(before, {"relu=same"}, stand_ins());
  ASSERT_EQ(after.layers().size(), before.layers().size());
  for (std::size_t i = 0; i < before.layers().size(); ++i) {
    const auto& l = before.layers()[i];
    EXPECT_EQ(after.layers()[i].name, l.name);
    EXPECT_EQ(after.layers()[i].op->kind(), l.op->kind() == "relu" ? "same" : l.op->kind());
    EXPECT_EQ(after.layers()[i].inputs, l.inputs);
    EXPECT_EQ(after.layers()[i].outputs, l.outputs);
  }
  EXPECT_EQ(after.name(), before.name());
  EXPECT_EQ(after.output(), before.output());
  EXPECT_EQ(after.parameter_count(), before.parameter_count());
}

TEST(ReplaceLayers, LetsANameGoBeforeAKindInAnyOrder) {
  for (const std::vector<std::string>& order :
       {std::vector<std::string>{"relu=same", "relu3=other:x=1"}, {"relu3=other:x=1", "relu=same"}}) {
    const auto net = apply_plugins(lenet(), order, stand_ins());
    EXPECT_EQ(kind_of(net, "relu1"), "same");
    EXPECT_EQ(kind_of(net, "relu3"), "otherx=1");
  }
}

TEST(ReplaceLayers, KeepsBranchesAndSkipConnections) {
  const auto before = find_model("resnet18").build({.image_size = 32, .classes = 10, .width = 0.125});
  const auto after = apply_plugins(before, {"relu=same"}, stand_ins());
  ASSERT_EQ(after.values().size(), before.values().size());
  for (std::size_t i = 0; i < before.values().size(); ++i) {
    EXPECT_EQ(after.values()[i].name, before.values()[i].name);
    EXPECT_EQ(after.values()[i].consumers, before.values()[i].consumers);
    EXPECT_EQ(after.values()[i].spec.dims, before.values()[i].spec.dims);
  }
}

TEST(ReplaceLayers, NamesTheNearestWordOfTheModel) {
  EXPECT_EQ(refusal({"rleu=same"}), "lenet: no layer and no kind of layer is called 'rleu' (did you mean 'relu'?)");
  EXPECT_THAT(refusal({"relu=sane"}), HasSubstr("lenet: no plug-in layer 'sane' (did you mean 'same'?)"));
  EXPECT_EQ(refusal({"relu=same", "relu=other"}), "lenet: 'relu' is replaced twice");
}

TEST(ReplaceLayers, RefusesShapesThatNoLongerFit) {
  EXPECT_THAT(refusal({"relu3=wider"}), HasSubstr("lenet: fc2: ")); // the layer behind it says what it found
  EXPECT_EQ(refusal({"relu3=twins"}), "lenet: relu3: 'twins' has 2 outputs, the layer it replaces 1");
  EXPECT_EQ(refusal({"fc3=wider"}), "lenet: with the layers replaced it has 85 classes instead of 10");
}

TEST(ReplaceLayers, RefusesATextOfAnotherForm) {
  for (const auto* text : {"", "relu", "=swish", "relu=", "relu=:slope=1"})
    EXPECT_THAT(refusal({text}), HasSubstr("wanted KIND_OR_NAME=PLUGIN_LAYER[:options]")) << text;
  const auto parsed = parse_replacement("features.3=leaky_relu:slope=0.1,a=b:c");
  EXPECT_EQ(parsed.what, "features.3");
  EXPECT_EQ(parsed.layer, "leaky_relu");
  EXPECT_EQ(parsed.options, "slope=0.1,a=b:c");
}

TEST(ReplaceLayers, DescribesItselfForCheckpoints) {
  EXPECT_EQ(describe_replacements({}), "");
  EXPECT_EQ(describe_replacements({"relu=swish", "fc1=x:y=1"}), " replace_layer=relu=swish replace_layer=fc1=x:y=1");
}

} // namespace
} // namespace penstock::apps
