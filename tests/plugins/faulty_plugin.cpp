// Plug-ins with one fault each, chosen by the build, and one that does everything right.
#include "apps/plugins/plugin_api.hpp"

namespace {

using penstock::apps::plugin_registry;

[[maybe_unused]] penstock::layer_ptr no_layer(std::string_view) {
  return nullptr;
}

[[maybe_unused]] penstock::model no_model(const penstock::apps::model_options&) {
  throw penstock::error("this model cannot be built");
}

[[maybe_unused]] void add_nothing(plugin_registry&) {}

[[maybe_unused]] penstock_plugin good() {
  return {penstock::apps::plugin_abi,       "g++ 12.2", PENSTOCK_BUILD,
          penstock::apps::plugin_layouts(), "faulty",   add_nothing};
}

} // namespace

#if defined(FAULT_other_abi)
extern "C" const penstock_plugin* penstock_plugin_entry() {
  static penstock_plugin self = good();
  self.abi = 7;
  self.compiler = "g++ 11.3";
  self.build = nullptr; // whatever is behind the compiler belongs to that ABI and must not be read
  self.register_into = nullptr;
  return &self;
}
#elif defined(FAULT_other_build)
extern "C" const penstock_plugin* penstock_plugin_entry() {
  static penstock_plugin self = good();
  self.build = "Penstock 0.0.1, g++ 11, libstdc++ 11 string ABI 0, C++ 201703L";
  return &self;
}
#elif defined(FAULT_other_layouts)
extern "C" const penstock_plugin* penstock_plugin_entry() {
  static penstock_plugin self = good();
  ++self.layouts;
  return &self;
}
#elif defined(FAULT_no_entry)
extern "C" int something_else() {
  return 1;
}
#elif defined(FAULT_nothing)
extern "C" const penstock_plugin* penstock_plugin_entry() {
  return nullptr;
}
#elif defined(FAULT_throws)
void add(plugin_registry& registry) {
  registry.add_layer("half", "added before the fault", no_layer);
  registry.add_model({"half_model", "added before the fault", 28, 1, no_model});
  throw penstock::error("no licence\nfound");
}
PENSTOCK_PLUGIN("throws", add)
#elif defined(FAULT_throws_int)
void add(plugin_registry&) {
  throw 42;
}
PENSTOCK_PLUGIN("throws_int", add)
#elif defined(FAULT_duplicate)
void add(plugin_registry& registry) {
  registry.add_layer("fresh", "not taken", no_layer);
  registry.add_layer("swish", "taken by the example", no_layer);
}
PENSTOCK_PLUGIN("duplicate", add)
#elif defined(FAULT_taken_model)
void add(plugin_registry& registry) {
  registry.add_layer("beside_a_taken_model", "", no_layer);
  registry.add_model({"lenet", "taken by Penstock", 28, 1, no_model});
}
PENSTOCK_PLUGIN("taken_model", add)
#elif defined(FAULT_missing_symbol)
int from_another_penstock();
void add(plugin_registry&) {
  from_another_penstock();
}
PENSTOCK_PLUGIN("missing_symbol", add)
#elif defined(FAULT_fast_math)
PENSTOCK_PLUGIN("fast_math", add_nothing)
#elif defined(FAULT_helpful)
// Exceptions in both directions: those of the program are caught and cast here by type, those from here in the test.
penstock::layer_ptr make(std::string_view what) {
  if (what == "error") throw penstock::error("thrown as penstock::error");
  if (what == "check") {
    try {
      penstock::check(false, "from the program");
    } catch (const std::logic_error&) {
      throw penstock::error("caught a logic_error");
    }
  }
  try {
    penstock::apps::find_model("lenet5");
  } catch (const std::exception& e) {
    if (dynamic_cast<const penstock::usage_error*>(&e) != nullptr) throw penstock::error("cast to usage_error");
  }
  return nullptr;
}
penstock::model build(const penstock::apps::model_options& options) {
  if (options.classes == 1) throw penstock::error("one class is not enough");
  throw penstock::usage_error("not this model");
}
void add(plugin_registry& registry) {
  registry.add_layer("helpful", "throws and catches", make);
  registry.add_layer("gives_none", "returns null", no_layer);
  registry.add_model({"helpful_model", "throws", 28, 1, build});
}
PENSTOCK_PLUGIN("helpful", add)
#endif
