// The table of kinds: the two that are built in, and what is added.
#include "kernels/device_kinds.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/cpu_device.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/text.hpp"

#include <algorithm>

namespace penstock {

namespace {

std::vector<device_kind_entry>& kinds() {
  static std::vector<device_kind_entry> all{{"cpu", open_cpu_device, ""}, {"cuda", open_cuda_device, ""}};
  return all;
}

const device_kind_entry& kind_named(std::string_view name) {
  const auto& all = kinds();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& kind) { return kind.name == name; });
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const auto& kind : all)
    names.push_back(kind.name);
  throw usage_error("unknown device " + in_quotes(name) + did_you_mean(name, names) + "; there are " +
                    join(names, ", "));
}

} // namespace

void add_device_kind(device_kind_entry entry) {
  check(!entry.name.empty() && entry.open != nullptr, "a kind of device has a name and can be opened");
  auto& all = kinds();
  const auto same = std::find_if(all.begin(), all.end(), [&](const auto& kind) { return kind.name == entry.name; });
  if (same != all.end())
    *same = std::move(entry);
  else
    all.push_back(std::move(entry));
}

std::shared_ptr<device> open_device(std::string_view kind, int index) {
  return kind_named(kind).open(index);
}

compute_library_info compute_library_of(std::string_view kind, bool reference) {
  auto [library, instruction_set] = compute_library();
  if (const auto& own = kind_named(kind).computed_by; !own.empty()) library = own;
  if (reference) library = "reference loops";
  return {library, instruction_set};
}

} // namespace penstock
