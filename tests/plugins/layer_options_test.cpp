// Options of plug-in layers, and the names that a plug-in may give.
#include "apps/plugins/plugin_registry.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void()>& function) {
  try {
    function();
  } catch (const usage_error& e) {
    return e.what();
  }
  return "not refused";
}

TEST(LayerOptions, GivesNumbersAndDefaults) {
  layer_options options("slope=0.25,beta=-3e2");
  EXPECT_DOUBLE_EQ(options.number("slope", 1), 0.25);
  EXPECT_DOUBLE_EQ(options.number("beta", 1), -300);
  EXPECT_DOUBLE_EQ(options.number("other", 7), 7);
  EXPECT_NO_THROW(options.finish());
  EXPECT_NO_THROW(layer_options("").finish());
}

TEST(LayerOptions, RefusesWhatItCannotRead) {
  EXPECT_EQ(refusal([] { layer_options("slope"); }), "'slope' is not an option of the form KEY=NUMBER");
  EXPECT_EQ(refusal([] { layer_options("=3"); }), "'=3' is not an option of the form KEY=NUMBER");
  EXPECT_EQ(refusal([] { layer_options("a=1,,b=2"); }), "'' is not an option of the form KEY=NUMBER");
  EXPECT_EQ(refusal([] { layer_options("a=1,a=2"); }), "option 'a' is given twice");
  for (const auto* text : {"a=", "a=x", "a=1x", "a=nan", "a=inf", "a=1e999"})
    EXPECT_THAT(refusal([&] { layer_options{text}; }), HasSubstr("wanted a number")) << text;
}

TEST(LayerOptions, NamesAnOptionThatNobodyAskedFor) {
  layer_options options("slpe=1");
  options.number("slope", 0);
  EXPECT_EQ(refusal([&] { options.finish(); }), "no option 'slpe' (did you mean 'slope'?)");
}

TEST(PluginRegistry, RefusesBadNamesAndMissingFunctions) {
  plugin_registry registry;
  const layer_factory make = [](std::string_view) -> layer_ptr { return nullptr; };
  for (const auto* name : {"", "a b", "a:b", "a=b", "a,b"})
    EXPECT_THAT(refusal([&] { registry.add_layer(name, "", make); }), HasSubstr("needs a name")) << name;
  EXPECT_THAT(refusal([&] { registry.add_layer("mine", "", nullptr); }), HasSubstr("no function"));
  EXPECT_THAT(refusal([&] { registry.add_model({"mine", "", 28, 1, nullptr}); }), HasSubstr("no function"));
  registry.add_layer("mine", "", make);
  EXPECT_EQ(refusal([&] { registry.add_layer("mine", "", make); }), "layer 'mine' exists already");
  EXPECT_TRUE(registry.models().empty());
}

TEST(PluginRegistry, NamesTheNearestLayer) {
  const plugin_registry none;
  EXPECT_EQ(refusal([&] { none.make_layer("swish", ""); }),
            "no plug-in layer 'swish'; no plug-in layers are loaded (--plugin FILE)");
  plugin_registry some;
  some.add_layer("swish", "", [](std::string_view) -> layer_ptr { return nullptr; });
  EXPECT_EQ(refusal([&] { some.make_layer("swsh", ""); }),
            "no plug-in layer 'swsh' (did you mean 'swish'?); there are: swish");
}

} // namespace
} // namespace penstock::apps
