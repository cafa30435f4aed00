// Fits model and data to each other.
#include "apps/runner/prepare.hpp"

#include "apps/runner/apply_plan.hpp"
#include "apps/runner/auto_plan.hpp"
#include "apps/runner/network.hpp"
#include "apps/runner/output_files.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace penstock::apps {

namespace {

std::vector<int> cut_indices(const std::vector<std::string>& cuts, const model& net) {
  std::vector<std::string> names;
  for (const auto& layer : net.layers())
    names.push_back(layer.name);
  std::vector<int> indices;
  for (const auto& cut : cuts) {
    const auto found = std::find(names.begin(), names.end(), cut);
    if (found == names.end())
      throw usage_error("--cuts: " + net.name() + " has no layer '" + cut.substr(0, 80) + "'" +
                        did_you_mean(cut, names));
    indices.push_back(static_cast<int>(found - names.begin()));
    if (indices.back() == 0) throw usage_error("--cuts: '" + cut + "' is the first layer, nothing would be before it");
    if (indices.size() > 1 && indices.back() <= indices[indices.size() - 2])
      throw usage_error("--cuts: '" + cut + "' does not come after '" +
                        names[static_cast<std::size_t>(indices[indices.size() - 2])] + "' in " + net.name());
  }
  return indices;
}

void check_stages(const app_options& o, const model& net) {
  const auto stages = o.run.replicas.size();
  if (stages > net.layers().size())
    throw usage_error(fmt::format("--stages: found {}, wanted at most {}, the layers of {}", stages,
                                  net.layers().size(), net.name()));
}

// Found here and not after the data has been read.
void check_weights_file(const std::filesystem::path& file) {
  if (!file.empty() && ::access(file.c_str(), R_OK) != 0)
    throw error("--weights: cannot read " + file.string() + ": " + std::strerror(errno));
}

void take_data(const app_options& o, prepared_run& run) {
  run.inputs.train = run.data.train.get();
  run.inputs.test = run.data.test.get();
  run.notes.push_back(run.data.train->description());
  if (run.data.test) run.notes.push_back(run.data.test->description());
  if (!o.data_given) run.notes.emplace_back("no --data given: the images are synthetic");
  if (run.inputs.test == nullptr && o.run.eval_only) {
    run.inputs.test = run.inputs.train;
    run.notes.emplace_back("there is no test set: the training samples are evaluated");
  }
}

// Sets the pipeline by hand or by plan.
void settle_pipeline(const app_options& o, const std::string& description,
                     const std::function<bool(const std::string&)>& say, std::shared_ptr<const model>& net,
                     prepared_run& run) {
  if (o.plan.source.empty()) {
    run.options.cuts = cut_indices(o.cuts, *net);
    run.options.recompute = parse_recompute(o.recompute, o.run.replicas.size());
    return;
  }
  if (!o.plan.save.empty()) check_output_file("--save-plan", o.plan.save);
  run.plan = o.plan.source == "auto" ? choose_plan(o, net, description, say) : read_plan_file(o.plan.source);
  apply_plan(*run.plan, net, run.options);
  if (const auto note = plan_differences(*run.plan, description, o.run); !note.empty()) {
    run.notes.push_back(note);
    run.plan->predicted.reset();
  }
}

} // namespace

prepared_run prepare(const app_options& o, const plugin_registry& plugins,
                     const std::function<bool(const std::string&)>& say) {
  auto [net, network, description] = build_network(o, plugins);
  prepared_run run;
  run.options = o.run;
  check_stages(o, *net);
  check_weights_file(o.run.weights);
  const auto& dims = net->value(net->input()).spec.dims;
  run.data = open_data({.spec = o.data,
                        .image_size = network.image_size,
                        .channels = dims.at(1),
                        .classes = network.classes,
                        .seed = o.run.seed,
                        .augment = o.augment,
                        .synthetic_samples = o.synthetic_samples});
  settle_pipeline(o, description, say, net, run);
  run.inputs.model_options = std::move(description);
  run.inputs.net = std::move(net);
  take_data(o, run);
  const auto samples = run.data.train->size();
  run.steps_per_epoch = samples / o.run.batch + (samples % o.run.batch != 0 ? 1 : 0);
  if (run.options.lr.total_steps == 0)
    run.options.lr.total_steps = o.run.steps > 0 ? o.run.steps : run.steps_per_epoch * o.run.epochs;
  return run;
}

} // namespace penstock::apps
