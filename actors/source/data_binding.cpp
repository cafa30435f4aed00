// Matching by name.
#include "actors/source/data_binding.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>

namespace penstock::actors {

namespace {

std::optional<std::size_t> place_of(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

std::string forms_of(const dtype type, const shape& dims) {
  return type == dtype::f32 ? to_string(dims) : std::string(name_of(type)) + " " + to_string(dims);
}

const std::string& extent_at(const data_input& given, std::size_t axis) {
  static const std::string fixed;
  return axis < given.extents.size() ? given.extents[axis] : fixed;
}

// Fixed extents must agree; one that varies must be the model's own, by name.
void check_form(const model& net, const model_input& wanted, const data_input& given) {
  const auto& value = net.value(wanted.value);
  const shape dims(value.spec.dims.begin() + 1, value.spec.dims.end());
  bool fits = given.spec.type == value.spec.type && given.spec.dims.size() == dims.size();
  for (std::size_t axis = 0; fits && axis < dims.size(); ++axis) {
    const auto& varies = extent_at(given, axis);
    const auto& takes = wanted.extents[axis];
    fits = varies.empty() ? given.spec.dims[axis] == dims[axis]
                          : takes && net.extents()[static_cast<std::size_t>(*takes)].name == varies;
  }
  const std::string what = value.name == "input" ? "samples" : value.name;
  if (!fits)
    throw usage_error("data: " + what + " are " + forms_of(given.spec.type, given.spec.dims) + "; " + net.name() +
                      " takes " + forms_of(value.spec.type, dims));
  if (wanted.below == 0 || given.below <= wanted.below) return;
  if (value.name == "labels")
    throw usage_error("data: " + std::to_string(given.below) + " classes; " + net.name() + " has " +
                      std::to_string(wanted.below) + " outputs");
  throw usage_error("data: " + what + " go up to " + std::to_string(given.below - 1) + "; " + net.name() +
                    " takes 0 to " + std::to_string(wanted.below - 1));
}

} // namespace

data_binding bind_data(const model& net, const dataset& data) {
  data_binding binding;
  const auto given = data.inputs();
  std::vector<std::string> names;
  for (const auto& g : given)
    names.push_back(g.name);
  for (const auto& wanted : net.inputs()) {
    const auto& name = net.value(wanted.value).name;
    const auto place = place_of(names, name);
    if (!place) throw usage_error("data: " + net.name() + " reads " + name + "; this data has " + join(names, ", "));
    check_form(net, wanted, given[*place]);
    binding.inputs.push_back(*place);
  }
  const auto counts = data.counts();
  for (const auto& wanted : net.counts()) {
    const auto place = place_of(counts, wanted);
    if (!place)
      throw usage_error("data: a loss of " + net.name() + " is divided by " + wanted + "; this data counts " +
                        join(counts, ", "));
    binding.counts.push_back(*place);
  }
  const auto extents = data.extents();
  for (const auto& e : net.extents())
    binding.extents.push_back(place_of(extents, e.name));
  return binding;
}

microbatch_info data_binding::info(const model& net, const minibatch_facts& of, std::int64_t samples) const {
  microbatch_info info{.samples = samples};
  for (std::size_t i = 0; i < counts.size(); ++i)
    info.counts[i] = of.counts[counts[i]];
  for (std::size_t i = 0; i < extents.size(); ++i)
    info.extents[i] = extents[i] ? of.extents[*extents[i]] : net.extents()[i].nominal;
  return info;
}

} // namespace penstock::actors
