// Turns a model and the one stage that has all of it into a profile's layers and groups.
#include "actors/profiler/describe_model.hpp"

#include "actors/policy/partition.hpp"
#include "actors/profiler/measure_machine.hpp"
#include "kernels/device_kinds.hpp"
#include "kernels/usable_cores.hpp"

#include <set>
#include <string>

namespace penstock::actors {

void describe_model(planner::profile& p, const pipeline& parts, const profile_options& o) {
  const auto& net = *parts.net;
  const auto& stage = parts.stages.front();
  p.model = net.name();
  p.least_samples = net.least_training_samples().samples;
  for (const auto& input : net.inputs())
    if (const auto& v = net.value(input.value); !v.consumers.empty())
      p.input_bytes_per_sample += element_count(v.spec.dims) * static_cast<std::int64_t>(size_of(v.spec.type));
  const auto [library, instruction_set] = compute_library_of(o.device, o.reference_kernels);
  p.machine = {{"processor", processor_name()},
               {"cores", std::to_string(usable_cores())},
               {"library", library},
               {"instruction_set", instruction_set},
               {"optimizer", o.optimizer.name}};
  p.layers.clear();
  for (int l = 0; l < static_cast<int>(net.layers().size()); ++l) {
    const auto& layer = net.layers()[static_cast<std::size_t>(l)];
    planner::profile_layer out{.name = layer.name, .kind = std::string(layer.op->kind())};
    std::set<int> producers; // a layer that reads one tensor twice has one edge
    for (const auto id : layer.inputs)
      producers.insert(net.value(id).producer);
    out.inputs.assign(producers.begin(), producers.end());
    out.forward_flops = layer.op->forward_flops(net.input_specs(l));
    for (const auto& c : net.carried(l))
      out.carried_bytes += static_cast<double>(element_count(c.dims) * static_cast<std::int64_t>(size_of(c.type)));
    out.fused_with_previous = stage.layers->is_absorbed(l);
    p.layers.push_back(std::move(out));
  }
  p.kept_together = kept_groups(net);
  p.tied.clear();
  for (const auto& tie : net.ties()) {
    std::set<int> layers;
    for (const auto& use : tie.uses)
      layers.insert(use.layer);
    p.tied.emplace_back(layers.begin(), layers.end());
  }
  for (std::size_t i = 0; i < stage.layers->parameters().size(); ++i)
    if (!stage.layers->is_repeat(i))
      p.layers[static_cast<std::size_t>(stage.layers->parameters()[i].layer)].weight_bytes +=
          static_cast<double>(stage.owned.newest->tensors[i].bytes());
}

} // namespace penstock::actors
