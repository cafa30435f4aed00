// Fits model and data to each other.
#include "apps/runner/prepare.hpp"

#include "actors/digest.hpp"
#include "actors/pipeline.hpp"
#include "actors/sample_needs.hpp"
#include "apps/runner/app_job.hpp"
#include "apps/runner/apply_plan.hpp"
#include "apps/runner/auto_plan.hpp"
#include "apps/runner/network.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/output_files.hpp"
#include "apps/runner/place_plan.hpp"
#include "apps/runner/say.hpp"
#include "kernels/check.hpp"
#include "kernels/input_file.hpp"
#include "kernels/text.hpp"
#include "kernels/usable_cores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
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
      throw usage_error("--cuts: " + net.name() + " has no layer " + in_quotes(cut) + did_you_mean(cut, names));
    indices.push_back(static_cast<int>(found - names.begin()));
    if (indices.back() == 0)
      throw usage_error("--cuts: " + in_quotes(cut) + " is the first layer, nothing would be before it");
    if (indices.size() > 1 && indices.back() <= indices[indices.size() - 2])
      throw usage_error("--cuts: " + in_quotes(cut) + " does not come after '" +
                        names[static_cast<std::size_t>(indices[indices.size() - 2])] + "' in " + net.name());
  }
  return indices;
}

// Who asks for more threads than cores may mean it, or has mistyped.
std::string crowd_note(const actors::run_options& run, const actors::placement& where, int rank) {
  int workers = 0;
  for (const auto& of_stage : where.rank_of)
    workers += static_cast<int>(std::count(of_stage.begin(), of_stage.end(), rank));
  const int cores = usable_cores();
  if (run.threads <= 0 || std::int64_t{workers} * run.threads <= cores) return "";
  return fmt::format("note: --threads {}: {} compute threads take turns on {} core{}", run.threads,
                     std::int64_t{workers} * run.threads, cores, cores == 1 ? "" : "s");
}

void check_stages(const app_options& o, const model& net) {
  const auto stages = o.run.replicas.size();
  if (stages > net.layers().size())
    throw usage_error(fmt::format("--stages: found {}, wanted at most {}, the layers of {}", stages,
                                  net.layers().size(), net.name()));
}

// Found here and not after the data has been read.
void check_weights_file(const std::filesystem::path& file) {
  if (file.empty()) return;
  if (::access(file.c_str(), R_OK) != 0)
    throw error("--weights: cannot read " + file.string() + ": " + std::strerror(errno));
  of_option("--weights", [&] { const input_file is_regular(file); });
}

void take_data(const app_options& o, prepared_run& run) {
  run.inputs.train = run.data.train.get();
  run.inputs.test = run.data.test.get();
  run.notes.push_back(run.data.train->description());
  if (run.data.test) run.notes.push_back(run.data.test->description());
  if (run.data.conversion) run.notes.push_back("images: " + describe(*run.data.conversion));
  if (!o.data_given) run.notes.emplace_back("no --data given: the images are synthetic");
  if (run.inputs.test == nullptr && o.run.eval_only) {
    run.inputs.test = run.inputs.train;
    run.notes.emplace_back("there is no test set: the training samples are evaluated");
  }
}

// Rank 0 reads it, or all find it together; rank 0 ships it.
planner::plan find_plan(const app_options& o, const std::string& description, app_job* job,
                        const std::function<bool(const std::string&)>& say, const std::shared_ptr<const model>& net) {
  std::optional<planner::plan> here;
  if (o.plan.source == "auto")
    here = choose_plan(o, net, description, job, say);
  else if (job == nullptr || job->is_first())
    here = read_plan_file(o.plan.source);
  if (job == nullptr) return std::move(*here);
  const auto text = here ? planner::to_json(*here) : "";
  constexpr auto patience = std::chrono::minutes(30); // profiling a large model takes its time; a lost rank 0 ends it
  return planner::plan_from_json(job->ranks().control.broadcast("plan", text, patience), "the plan of rank 0");
}

// Of a few samples, which tells other files of the same form.
std::string sampled_digest(const actors::dataset* data) {
  if (data == nullptr) return "none";
  constexpr std::int64_t looks = 16;
  const auto spec = data->input();
  memory_pool pool;
  named_tensors seen;
  std::string labels;
  for (std::int64_t i = 0; i < std::min(looks, data->size()); ++i) {
    const auto sample = i * data->size() / looks;
    auto image = tensor::allocate(pool, dtype::f32, spec.dims, memory_use::scratch);
    labels += std::to_string(data->load({.index = sample}, false, image.data<float>())) + " ";
    seen[std::to_string(i)] = std::move(image);
  }
  return std::to_string(data->size()) + " samples, digest " + actors::sha256_of(seen).substr(0, 12) + ", labels " +
         labels;
}

// What decides the bits or the bytes, and is known only now.
void compare_ranks(app_job& job, const prepared_run& run) {
  job.compare("the model", run.inputs.model_options);
  job.compare("the training data", sampled_digest(run.inputs.train));
  job.compare("the test data", sampled_digest(run.inputs.test));
}

actors::placement placement_of(int ranks, const actors::run_options& run) {
  return run.ranks.empty() ? actors::place_in_order(run.replicas, ranks) : actors::placement{ranks, run.ranks};
}

// The least that every rank can give each of its workers: the bits depend on it.
void settle_threads(app_job& job, actors::run_options& run) {
  if (run.threads > 0) return;
  const auto where = placement_of(job.ranks().size(), run);
  const auto here = std::to_string(actors::threads_per_worker(run, where, job.ranks().rank()));
  run.threads = std::numeric_limits<int>::max();
  for (const auto& text : job.ranks().control.all_gather("threads", here, job.ranks().patience))
    run.threads = std::min(run.threads, std::stoi(text));
}

// What was wished for when there were more processes, and may not be had from fewer.
app_options wishes_of_fewer(app_options o, int processes) {
  o.plan.cluster.clear();
  o.plan.fixes_replicas = false;
  if (o.plan.stages <= processes) return o;
  o.plan.stages = 0;
  o.cuts.clear();
  return o;
}

// Sets the pipeline by hand or by plan. Ranks that have lost others all come to the same one.
void settle_pipeline(const app_options& o, const std::string& description, app_job* job,
                     const std::function<bool(const std::string&)>& say, std::shared_ptr<const model>& net,
                     prepared_run& run) {
  const auto lost = lost_before();
  const bool plans = o.plan.source == "auto";
  const int processes = job != nullptr ? job->ranks().size() : 1;
  const int planned_for = plans ? processes : processes_before(lost, processes);
  const auto shrink = [&] {
    shrink_pipeline(without_losses(placement_of(planned_for, run.options), lost), run.options);
  };
  if (!lost.empty()) run.notes.push_back("lost " + text_of(lost) + (plans ? ": planned anew" : ": going on without"));
  if (o.plan.source.empty()) {
    run.options.cuts = cut_indices(o.cuts, *net);
    run.options.recompute = parse_recompute(o.recompute, o.run.replicas.size());
    if (!lost.empty()) shrink();
    return;
  }
  if (!o.plan.save.empty()) check_output_file("--save-plan", o.plan.save);
  run.plan = find_plan(plans && !lost.empty() ? wishes_of_fewer(o, processes) : o, description, job, say, net);
  apply_plan(*run.plan, net, run.options);
  if (planned_for > 1) place_by_devices(*run.plan, planned_for, run.options);
  if (!plans && !lost.empty()) {
    shrink();
    run.plan->predicted.reset();
  }
  if (const auto note = plan_differences(*run.plan, description, o.run); !note.empty()) {
    run.notes.push_back(note);
    run.plan->predicted.reset();
  }
}

// Refuses what no plan can mend, before one is looked for.
actors::minibatch_plan minibatches_of(const actors::run_options& run, const actors::dataset& data, const model& net) {
  actors::require_whole_minibatch(run, data.size());
  const actors::minibatch_plan minibatches(data.size(), run.batch, run.last);
  const auto steps = run.steps > 0 ? run.steps : minibatches.per_epoch() * run.epochs;
  if (!run.eval_only) actors::require_enough_samples(net, minibatches, run.batch, steps, 1);
  return minibatches;
}

} // namespace

prepared_run prepare(const app_options& o, const plugin_registry& plugins, app_job* job,
                     const std::function<bool(const std::string&)>& say) {
  if (job != nullptr) job->ranks().control.doing("reading the data");
  auto [net, network, description] = build_network(o, plugins);
  prepared_run run;
  run.options = o.run;
  check_stages(o, *net);
  if (job == nullptr || job->is_first()) check_weights_file(o.run.weights);
  const auto& dims = net->value(net->input()).spec.dims;
  run.data = of_option("--data", [&, size = network.image_size, classes = network.classes] {
    return open_data({.spec = o.data,
                      .image_size = size,
                      .channels = dims.at(1),
                      .classes = classes,
                      .seed = o.run.seed,
                      .augment = o.augment,
                      .synthetic_samples = o.synthetic_samples,
                      .skips_broken = o.broken_images == "skip",
                      .applies_orientation = o.exif_orientation == "apply",
                      .warn = [model = o.model](const std::string& line) { complain(model, line); }});
  });
  if (const auto note = quota_note(); !note.empty()) run.notes.push_back(note);
  const auto minibatches = minibatches_of(o.run, *run.data.train, *net);
  auto wishes = o;
  const bool reaches_tail = o.run.steps == 0 || o.run.steps >= minibatches.per_epoch();
  wishes.plan.last_batch = reaches_tail ? minibatches.tail() : 0;
  settle_pipeline(wishes, description, job, say, net, run);
  run.inputs.model_options = std::move(description);
  run.inputs.net = std::move(net);
  take_data(o, run);
  run.inputs.record = {
      {"--no-augment", o.augment ? "no" : "yes"},
      {"digest of some training samples", actors::sha256_of_text(sampled_digest(run.inputs.train)).substr(0, 12)}};
  if (job != nullptr) {
    job->ranks().control.doing("comparing model and data with the others");
    compare_ranks(*job, run);
    settle_threads(*job, run.options);
    const auto where = placement_of(job->ranks().size(), run.options);
    for (int rank = 0; rank < where.ranks; ++rank)
      if (where.is_idle(rank)) run.notes.push_back(fmt::format("the plan has nothing to do for rank {}", rank));
  }
  if (o.run.threads > 0) {
    const int ranks = job != nullptr ? job->ranks().size() : 1;
    const auto note =
        crowd_note(run.options, placement_of(ranks, run.options), job != nullptr ? job->ranks().rank() : 0);
    if (!note.empty()) run.notes.push_back(note);
  }
  run.steps_per_epoch = minibatches.per_epoch();
  if (run.options.lr.total_steps == 0)
    run.options.lr.total_steps = o.run.steps > 0 ? o.run.steps : run.steps_per_epoch * o.run.epochs;
  return run;
}

} // namespace penstock::apps
