// Walks the layers once with the extents given.
#include "kernels/shapes_by_extent.hpp"

#include "kernels/check.hpp"

namespace penstock {

namespace {

std::shared_ptr<const shapes_by_extent::specs> inferred(const model& m,
                                                        const std::array<std::int64_t, most_extents>& extents) {
  auto specs = std::make_shared<shapes_by_extent::specs>(m.values().size());
  const auto at = [&](value_id id) -> tensor_spec& { return (*specs)[static_cast<std::size_t>(id)]; };
  for (const auto& input : m.inputs()) {
    at(input.value) = m.value(input.value).spec;
    for (std::size_t axis = 0; axis < input.extents.size(); ++axis)
      if (const auto e = input.extents[axis]) at(input.value).dims[axis + 1] = extents[static_cast<std::size_t>(*e)];
  }
  for (const auto& layer : m.layers()) {
    std::vector<tensor_spec> inputs;
    for (const auto id : layer.inputs)
      inputs.push_back(at(id));
    try {
      const auto outputs = layer.op->infer(inputs);
      check(outputs.size() == layer.outputs.size(), "a layer has another number of outputs for other extents");
      for (std::size_t i = 0; i < outputs.size(); ++i)
        at(layer.outputs[i]) = outputs[i];
    } catch (const usage_error& e) {
      throw usage_error(m.name() + ": " + layer.name + ": " + e.what());
    }
  }
  return specs;
}

} // namespace

std::size_t shapes_by_extent::hash::operator()(const std::array<std::int64_t, most_extents>& extents) const {
  std::size_t h = 0;
  for (const auto e : extents)
    h = h * 0x9e3779b97f4a7c15ULL + static_cast<std::size_t>(e);
  return h;
}

std::shared_ptr<const shapes_by_extent::specs>
shapes_by_extent::of(const model& m, const std::array<std::int64_t, most_extents>& extents) {
  const std::lock_guard lock(mutex_);
  return cache_.find_or_make(extents, [&] { return inferred(m, extents); });
}

} // namespace penstock
