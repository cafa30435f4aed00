// Opens shared objects and checks who built them before calling anything of theirs.
#include "apps/plugins/load_plugin.hpp"

#include "apps/plugins/plugin_api.hpp"

#include <cfenv>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <link.h>
#include <system_error>

namespace penstock::apps {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  // One line, whatever the loader or the plug-in says.
  std::string line = "[plugin] " + file.string() + ": " + why;
  for (auto& c : line)
    if (c == '\n' || c == '\r') c = ' ';
  throw usage_error(line);
}

// What the dynamic loader says, without the file's name in front.
std::string loader_error(const std::string& file) {
  const char* text = dlerror();
  std::string reason = text != nullptr ? text : "unknown error";
  if (reason.starts_with(file + ": ")) reason.erase(0, file.size() + 2);
  return reason;
}

void check_file(const std::filesystem::path& file) {
  std::error_code problem;
  const auto status = std::filesystem::status(file, problem);
  if (status.type() == std::filesystem::file_type::not_found) refuse(file, "no such file");
  if (problem) refuse(file, problem.message());
  if (!std::filesystem::is_regular_file(status)) refuse(file, "not a file");
}

// The dynamic loader maps what the headers promise, and the process dies when a half-copied file does not have it. What
// is no shared object at all is left for the loader to say.
void check_complete(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::uintmax_t size = std::filesystem::file_size(file);
  ElfW(Ehdr) header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr))) return;
  const auto holds = [&](std::uintmax_t offset, std::uintmax_t bytes) {
    return offset <= size && bytes <= size - offset;
  };
  // The table of sections lies at the end, behind what is mapped.
  bool complete = holds(header.e_shoff, std::uintmax_t{header.e_shnum} * header.e_shentsize);
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; complete && i < header.e_phnum; ++i) {
    ElfW(Phdr) segment{};
    complete = in.read(reinterpret_cast<char*>(&segment), sizeof segment) && holds(segment.p_offset, segment.p_filesz);
  }
  if (!complete) refuse(file, "truncated: it has " + std::to_string(size) + " bytes and its headers speak of more");
}

void* open_object(const std::filesystem::path& file) {
  check_file(file);
  check_complete(file);
  // An absolute path, since the loader would look a bare name up in the system's folders.
  const auto path = std::filesystem::absolute(file).string();
  // A plug-in built with -ffast-math changes how this thread rounds when it is loaded; bits would differ from then on.
  std::fenv_t rounding{};
  std::fegetenv(&rounding);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::fesetenv(&rounding);
  if (handle == nullptr) {
    auto reason = loader_error(path);
    if (reason.find("undefined symbol") != std::string::npos)
      reason += " (was it built for Penstock " PENSTOCK_VERSION "?)";
    refuse(file, "cannot be loaded: " + reason);
  }
  return handle;
}

void check_build(const std::filesystem::path& file, const penstock_plugin& plugin) {
  if (plugin.abi != plugin_abi)
    refuse(file, "built for ABI " + std::to_string(plugin.abi) + " with " + plugin.compiler +
                     "; this program has ABI " + std::to_string(plugin_abi) +
                     " with " PENSTOCK_COMPILER "." PENSTOCK_COMPILER_MINOR
                     "; build it with the headers of this Penstock");
  if (std::string_view(plugin.build) != PENSTOCK_BUILD)
    refuse(file, std::string("built with ") + plugin.build + "; this program with " PENSTOCK_BUILD);
  if (plugin.layouts != plugin_layouts())
    refuse(file, "its tensors and layers are laid out otherwise than this program's; build it with the headers of "
                 "this Penstock and without flags that change the standard library");
  if (plugin.name == nullptr || *plugin.name == '\0' || plugin.register_into == nullptr)
    refuse(file, "its entry point names no plug-in or no function that registers it");
}

} // namespace

void load_plugin(const std::filesystem::path& file, plugin_registry& registry) {
  // Handles are never closed: layers, exceptions and models of the plug-in may live until the process ends.
  void* handle = open_object(file);
  using entry_function = const penstock_plugin*();
  auto* entry = reinterpret_cast<entry_function*>(dlsym(handle, "penstock_plugin_entry"));
  if (entry == nullptr) refuse(file, "not a Penstock plug-in: it has no penstock_plugin_entry (PENSTOCK_PLUGIN)");
  const auto* plugin = entry();
  if (plugin == nullptr) refuse(file, "its entry point returned nothing");
  check_build(file, *plugin);
  try {
    plugin_registry added;
    plugin->register_into(added);
    registry.adopt(plugin->name, std::move(added));
  } catch (const std::exception& e) {
    refuse(file, e.what());
  } catch (...) {
    refuse(file, "threw something that is no std::exception while it registered");
  }
}

plugin_registry load_plugins(const std::vector<std::string>& files) {
  plugin_registry registry;
  for (const auto& file : files)
    load_plugin(file, registry);
  return registry;
}

model apply_plugins(const model& net, const std::vector<std::string>& replacements, const plugin_registry& registry) {
  if (replacements.empty()) return net;
  std::vector<layer_replacement> parsed;
  for (const auto& text : replacements)
    parsed.push_back(parse_replacement(text));
  return replace_layers(net, parsed, registry);
}

std::string describe_replacements(const std::vector<std::string>& replacements) {
  std::string text;
  for (const auto& r : replacements)
    text += " replace_layer=" + r;
  return text;
}

} // namespace penstock::apps
