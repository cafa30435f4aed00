// Loading plug-ins: what a good one brings, and the one line that each kind of bad one gets.
#include "actors/freeze/freeze_policies.hpp"
#include "apps/plugins/plugin_api.hpp"
#include "kernels/check.hpp"
#include "tests/plugins/example_plugin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace penstock::apps {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

template <class Function>
std::string refusal(Function function) {
  try {
    function();
  } catch (const usage_error& e) {
    return e.what();
  }
  return "not refused";
}

std::string refusal_of_file(const std::string& file) {
  plugin_registry registry;
  return refusal([&] { load_plugin(file, registry); });
}

auto one_line_about(const std::string& file) {
  return AllOf(StartsWith("[plugin] " + file + ": "), Not(HasSubstr("\n")));
}

TEST(LoadPlugin, BringsLayersAndModels) {
  ASSERT_EQ(example_plugin().plugins(), std::vector<std::string>{"custom_layer"});
  ASSERT_EQ(example_plugin().layers().size(), 2U);
  EXPECT_EQ(example_plugin().layers()[0].name, "swish");
  EXPECT_EQ(example_plugin().make_layer("leaky_relu", "slope=0.5")->kind(), "leaky_relu");
  const auto net = find_model("perceptron").build({.image_size = 8, .classes = 3});
  EXPECT_EQ(net.classes(), 3);
  EXPECT_EQ(net.parameter_count(), 64 * 64 + 64 + 3 * 64 + 3);
}

TEST(LoadPlugin, BringsFreezePolicies) {
  const auto& policies = example_plugin().freeze_policies();
  ASSERT_EQ(policies.size(), 1U);
  EXPECT_EQ(policies[0].plugin, "custom_layer");
  const auto policy = actors::parse_freeze_policy("one_by_one:limit=2", policies);
  actors::freeze_statistics seen;
  seen.units.resize(5);
  EXPECT_EQ(policy->depth(seen), 1);
  seen.depth = 2;
  EXPECT_EQ(policy->depth(seen), 2);
  EXPECT_EQ(refusal([&] { actors::parse_freeze_policy("one_by_one:limit=0", policies); }),
            "[plugin] custom_layer: freeze policy 'one_by_one': limit 0 freezes nothing");
}

TEST(LoadPlugin, FreezePoliciesKeepToNamesThatAreFree) {
  plugin_registry registry;
  const auto make = [](std::string_view) { return actors::schedule_policy(0.5); };
  EXPECT_EQ(refusal([&] { registry.add_freeze_policy("schedule", "", make); }),
            "freeze policy 'schedule' exists already");
  EXPECT_EQ(refusal([&] { registry.add_freeze_policy("a:b", "", make); }),
            "freeze policy 'a:b' needs a name of letters, digits, '_', '-' and '.'");
  EXPECT_EQ(refusal([&] { registry.add_freeze_policy("none", "", nullptr); }),
            "freeze policy 'none' has no function that makes it");
  registry.add_freeze_policy("one_by_one", "", make);
  EXPECT_EQ(refusal([&] {
              auto loaded = example_plugin();
              loaded.adopt("another", registry);
            }),
            "freeze policy 'one_by_one' exists already (plug-in 'custom_layer')");
}

TEST(LoadPlugin, RefusesAnotherAbiWithoutReadingMore) {
  const auto line = refusal_of_file(plugin_file("plugin_other_abi"));
  EXPECT_THAT(line, one_line_about(plugin_file("plugin_other_abi")));
  EXPECT_THAT(
      line, HasSubstr("built for ABI 7 with g++ 11.3; this program has ABI " + std::to_string(plugin_abi) + " with "));
}

TEST(LoadPlugin, RefusesAnotherCompilerOrVersion) {
  EXPECT_THAT(refusal_of_file(plugin_file("plugin_other_build")),
              AllOf(one_line_about(plugin_file("plugin_other_build")), HasSubstr("built with Penstock 0.0.1, g++ 11, "),
                    HasSubstr("; this program with Penstock ")));
}

TEST(LoadPlugin, RefusesAnotherLayoutOfTensors) {
  EXPECT_THAT(refusal_of_file(plugin_file("plugin_other_layouts")),
              AllOf(one_line_about(plugin_file("plugin_other_layouts")), HasSubstr("laid out otherwise")));
}

TEST(LoadPlugin, RefusesOneWhoseLayersHaveAVirtualFunctionMoreWhateverNumberItBears) {
  EXPECT_THAT(refusal_of_file(plugin_file("plugin_one_more")),
              AllOf(one_line_about(plugin_file("plugin_one_more")), HasSubstr("laid out otherwise")));
}

TEST(LoadPlugin, RefusesWhatIsNoPlugin) {
  EXPECT_EQ(refusal_of_file("/nowhere/libmine.so"), "[plugin] /nowhere/libmine.so: no such file");
  EXPECT_EQ(refusal_of_file(PLUGIN_FOLDER), "[plugin] " PLUGIN_FOLDER ": not a file");
  const auto text = testing::TempDir() + "no_object.so";
  std::ofstream(text) << "not a shared object\n";
  EXPECT_THAT(refusal_of_file(text), AllOf(one_line_about(text), HasSubstr("cannot be loaded: ")));
  std::filesystem::remove(text);
  EXPECT_THAT(refusal_of_file(plugin_file("plugin_no_entry")), HasSubstr("it has no penstock_plugin_entry"));
  EXPECT_THAT(refusal_of_file(plugin_file("plugin_nothing")), HasSubstr("entry point returned nothing"));
}

TEST(LoadPlugin, RefusesAHalfCopiedFileInsteadOfDying) {
  const auto whole = plugin_file("custom_layer");
  const auto part = testing::TempDir() + "half_copied.so";
  const auto size = std::filesystem::file_size(whole);
  for (const std::uintmax_t bytes :
       {std::uintmax_t{0}, std::uintmax_t{40}, std::uintmax_t{100}, size / 4, size / 2, size - 1}) {
    std::filesystem::copy_file(whole, part, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(part, bytes);
    EXPECT_THAT(refusal_of_file(part), one_line_about(part)) << bytes << " of " << size << " bytes";
  }
  std::filesystem::remove(part);
}

TEST(LoadPlugin, NamesASymbolThatTheProgramLacks) {
  EXPECT_THAT(refusal_of_file(plugin_file("plugin_missing_symbol")),
              AllOf(one_line_about(plugin_file("plugin_missing_symbol")), HasSubstr("from_another_penstock")));
}

TEST(LoadPlugin, AddsNothingOfOneThatThrows) {
  plugin_registry registry;
  const auto file = plugin_file("plugin_throws");
  EXPECT_EQ(refusal([&] { load_plugin(file, registry); }), "[plugin] " + file + ": no licence found");
  EXPECT_TRUE(registry.layers().empty());
  EXPECT_TRUE(registry.plugins().empty());
  EXPECT_THROW(find_model("half_model"), usage_error);
  EXPECT_THAT(refusal_of_file(plugin_file("plugin_throws_int")), HasSubstr("no std::exception"));
}

TEST(LoadPlugin, RefusesNamesThatAreTaken) {
  auto registry = example_plugin();
  EXPECT_THAT(refusal([&] { load_plugin(plugin_file("custom_layer"), registry); }),
              EndsWith("a plug-in 'custom_layer' is loaded already"));
  EXPECT_THAT(refusal([&] { load_plugin(plugin_file("plugin_duplicate"), registry); }),
              EndsWith("layer 'swish' exists already (plug-in 'custom_layer')"));
  EXPECT_THAT(refusal([&] { load_plugin(plugin_file("plugin_taken_model"), registry); }),
              EndsWith("model 'lenet' exists already"));
  EXPECT_EQ(registry.layers().size(), 2U);
}

TEST(LoadPlugin, LetsExceptionsCrossTheBorderByType) {
  const auto registry = load_plugins({plugin_file("plugin_helpful")});
  EXPECT_THAT(refusal([&] { registry.make_layer("helpful", "error"); }), EndsWith("thrown as penstock::error"));
  EXPECT_THAT(refusal([&] { registry.make_layer("helpful", "check"); }), EndsWith("caught a logic_error"));
  EXPECT_THAT(refusal([&] { registry.make_layer("helpful", "cast"); }), EndsWith("cast to usage_error"));
  EXPECT_THAT(refusal([&] { registry.make_layer("gives_none", ""); }), EndsWith("its factory gave none"));
  EXPECT_THROW(find_model("helpful_model").build({.classes = 1}), error);
  EXPECT_THROW(find_model("helpful_model").build({.classes = 2}), usage_error);
}

// -ffast-math links code into a shared object that turns denormal numbers off for the thread that loads it.
TEST(LoadPlugin, KeepsTheFloatingPointModeOfTheProgram) {
  volatile float tiny = 1e-38F;
  ASSERT_GT(tiny / 16, 0.0F);
  load_plugins({plugin_file("plugin_fast_math")});
  EXPECT_GT(tiny / 16, 0.0F);
}

} // namespace
} // namespace penstock::apps
