// Fits model and data to each other.
#include "apps/runner/prepare.hpp"

#include "actors/checkpoint/digest.hpp"
#include "actors/policy/freezing.hpp"
#include "actors/run/column_needs.hpp"
#include "actors/run/sample_needs.hpp"
#include "apps/runner/app_job.hpp"
#include "apps/runner/apply_plan.hpp"
#include "apps/runner/auto_plan.hpp"
#include "apps/runner/network.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/output_files.hpp"
#include "apps/runner/plan_changes.hpp"
#include "apps/runner/say.hpp"
#include "kernels/check.hpp"
#include "kernels/device_kinds.hpp"
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
  const auto names = actors::layer_names(net);
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

// 0 where none is named.
int frozen_index(const std::string& layer, const model& net) {
  if (layer.empty()) return 0;
  const auto names = actors::layer_names(net);
  const auto index = actors::layer_index(layer, net);
  if (index == static_cast<int>(names.size()))
    throw usage_error("--frozen-until: " + net.name() + " has no layer " + in_quotes(layer) +
                      did_you_mean(layer, names));
  if (index == 0)
    throw usage_error("--frozen-until: " + in_quotes(layer) + " is the first layer, nothing would be before it");
  of_option("--frozen-until", [&] { actors::require_freeze(net, index); });
  return index;
}

// Who asks for more threads than cores may mean it, or has mistyped.
std::string crowd_note(int threads, const planner::execution_plan& plan, int rank) {
  const int workers = actors::workers_on(plan, rank);
  const int cores = usable_cores();
  if (std::int64_t{workers} * threads <= cores) return "";
  return fmt::format("note: --threads {}: {} compute threads take turns on {} core{}", threads,
                     std::int64_t{workers} * threads, cores, cores == 1 ? "" : "s");
}

void check_stages(const app_options& o, const model& net) {
  const auto positions = o.pipeline.replicas.size();
  const auto chunks = static_cast<std::size_t>(actors::chunks_of(o.pipeline));
  const auto stages = positions * chunks;
  if (stages > net.layers().size() && chunks > 1)
    throw usage_error(fmt::format("--chunks: found {}, which on {} worker position{} is {} stages, wanted at most {}, "
                                  "the layers of {}",
                                  chunks, positions, positions == 1 ? "" : "s", stages, net.layers().size(),
                                  net.name()));
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

void take_data(const app_options& o, const actors::minibatch_list& minibatches, prepared_run& run) {
  run.inputs.train = run.data.train.get();
  run.inputs.test = run.data.test.get();
  const auto made_of = minibatches.description();
  run.notes.push_back(run.data.train->description() + (made_of.empty() ? "" : ": " + made_of));
  if (run.data.test) run.notes.push_back(run.data.test->description());
  if (run.data.conversion) run.notes.push_back("images: " + describe(*run.data.conversion));
  if (!o.data_given)
    run.notes.emplace_back(find_model(o.model).takes_images ? "no --data given: the images are synthetic"
                                                            : "no --data given: the sequences are random");
  if (run.inputs.test == nullptr && o.run.asgd_patience > 0)
    throw usage_error("--asgd-trigger: " + run.inputs.train->description() +
                      ": there is nothing to evaluate beside it");
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
  const auto inputs = data->inputs();
  const auto names = data->extents();
  const auto all = data->minibatches({.batch = 1, .training = false});
  memory_pool pool;
  named_tensors seen;
  for (std::int64_t i = 0; i < std::min(looks, all->per_epoch()); ++i) {
    const auto sample = i * all->per_epoch() / looks;
    const auto facts = all->facts(sample);
    std::vector<tensor> one;
    for (const auto& input : inputs)
      one.push_back(tensor::allocate(pool, input.spec.type, actors::dims_of(input, names, facts, facts.samples),
                                     memory_use::scratch));
    all->load(sample, 0, one);
    for (std::size_t n = 0; n < inputs.size(); ++n)
      seen[std::to_string(i) + inputs[n].name] = std::move(one[n]);
  }
  return std::to_string(data->size()) + " samples, digest " + actors::sha256_of(seen).substr(0, 12);
}

// What decides the bits or the bytes, and is known only now.
void compare_ranks(app_job& job, const prepared_run& run) {
  const auto [library, instruction_set] = compute_library_of(run.options.device, run.options.reference_kernels);
  job.compare("the library of --device " + run.options.device, library);
  job.compare("the model", run.inputs.model_options);
  job.compare("the training data", sampled_digest(run.inputs.train));
  job.compare("the test data", sampled_digest(run.inputs.test));
}

// The least that every rank can give each of its workers: the bits depend on it.
int agreed_threads(const app_job& job, int here) {
  int least = here;
  for (const auto& text : job.ranks().control.all_gather("threads", std::to_string(here), job.ranks().patience))
    least = std::min(least, std::stoi(text));
  return least;
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

// By hand: what the command line says of the pipeline, without the processes that were lost.
planner::plan plan_by_hand(const app_options& o, const std::string& description, int processes, const model& net) {
  auto request = o.pipeline;
  request.cuts = cut_indices(o.cuts, net);
  request.frozen_until = frozen_index(o.frozen_until, net);
  request.recompute =
      parse_recompute(o.recompute, request.replicas.size() * static_cast<std::size_t>(actors::chunks_of(request)));
  if (const auto lost = lost_before(); !lost.empty())
    shrink_pipeline(without_losses(actors::place_in_order(request.replicas, processes_before(lost, processes)), lost),
                    request);
  planner::plan p;
  static_cast<planner::execution_plan&>(p) = actors::draft_plan(request, net);
  p.model = net.name();
  p.model_options = description;
  p.batch = o.run.batch;
  p.optimizer_copies = optimizer_copies(o.run.optimizer);
  return p;
}

// Read or found.
planner::plan plan_by_plan(const app_options& o, const std::string& description, app_job* job,
                           const std::function<bool(const std::string&)>& say, std::shared_ptr<const model>& net,
                           prepared_run& run) {
  const auto lost = lost_before();
  const bool finds = o.plan.source == "auto";
  if (finds) frozen_index(o.frozen_until, *net); // before anything is measured
  const int processes = place_in(job).processes;
  auto p = find_plan(finds && !lost.empty() ? wishes_of_fewer(o, processes) : o, description, job, say, net);
  const bool shrinks = !finds && !lost.empty();
  if (shrinks) p.predicted.reset();
  if (const auto note = plan_differences(p, description, o.run, o.pipeline.threads); !note.empty()) {
    run.notes.push_back(note);
    p.predicted.reset();
  }
  auto fitted = fit_plan(p, net, o.pipeline.threads);
  static_cast<planner::execution_plan&>(p) = std::move(fitted.plan);
  net = std::move(fitted.net);
  if (shrinks) leave_out_lost(p, lost, processes, *net);
  return p;
}

// Settles the pipeline, by hand or by plan. Ranks that have lost others all come to the same one.
void settle_pipeline(const app_options& o, const std::string& description, app_job* job,
                     const std::function<bool(const std::string&)>& say, std::shared_ptr<const model>& net,
                     prepared_run& run) {
  if (const auto lost = lost_before(); !lost.empty())
    run.notes.push_back("lost " + text_of(lost) + (o.plan.source == "auto" ? ": planned anew" : ": going on without"));
  if (!o.plan.save.empty()) check_output_file("--save-plan", o.plan.save);
  auto p = o.plan.source.empty() ? plan_by_hand(o, description, place_in(job).processes, *net)
                                 : plan_by_plan(o, description, job, say, net, run);
  const bool says_threads = p.threads > 0;
  static_cast<planner::execution_plan&>(p) = *actors::settle_plan(p, *net, place_in(job));
  if (job != nullptr && !says_threads) p.threads = agreed_threads(*job, p.threads);
  run.plan = std::make_shared<const planner::plan>(std::move(p));
}

// A plan's file may freeze as deep as the model can be frozen.
int deepest_that_is_asked(const app_options& o, const model& net) {
  if (!o.frozen_until.empty()) return frozen_index(o.frozen_until, net);
  if (o.plan.source.empty() || o.plan.source == "auto") return 0;
  return actors::deepest_freeze(net, static_cast<int>(net.layers().size())).layer;
}

// Refuses what no plan can mend, before one is looked for.
actors::minibatches_ptr minibatches_of(const actors::run_options& run, const actors::dataset& data, const model& net,
                                       int frozen_until) {
  actors::require_whole_minibatch(run, data.size());
  auto minibatches = data.minibatches(actors::training_batches(run));
  const auto steps = run.steps > 0 ? run.steps : minibatches->per_epoch() * run.epochs;
  if (!run.eval_only)
    actors::require_enough_samples(net, actors::epoch_minibatches(data.size(), run.batch, run.last), run.batch, steps,
                                   1, frozen_until);
  return minibatches;
}

} // namespace

prepared_run prepare(const app_options& o, const plugin_registry& plugins, app_job* job,
                     const std::function<bool(const std::string&)>& say) {
  of_option("--device", [&] { open_device(o.run.device, 0); }); // can it be had?
  if (job != nullptr) job->ranks().control.doing("reading the data");
  auto [net, network, description] = build_network(o, plugins);
  prepared_run run;
  run.options = o.run;
  check_stages(o, *net);
  if (job == nullptr || job->is_first()) check_weights_file(o.run.weights);
  const bool takes_images = find_model(o.model).takes_images;
  const auto channels = takes_images ? net->value(net->input()).spec.dims.at(1) : 1;
  run.data = of_option("--data", [&, size = network.image_size, classes = network.classes] {
    return open_data({.spec = o.data,
                      .image_size = size,
                      .channels = channels,
                      .classes = classes,
                      .seed = o.run.seed,
                      .augment = o.augment,
                      .synthetic_samples = o.synthetic_samples,
                      .skips_broken = o.broken_images == "skip",
                      .applies_orientation = o.exif_orientation == "apply",
                      .net = takes_images ? nullptr : net.get(),
                      .text = o.text,
                      .warn = [model = o.model](const std::string& line) { complain(model, line); }});
  });
  if (const auto note = quota_note(); !note.empty()) run.notes.push_back(note);
  auto minibatches = minibatches_of(o.run, *run.data.train, *net, deepest_that_is_asked(o, *net));
  auto wishes = o;
  const bool reaches_tail = o.run.steps == 0 || o.run.steps >= minibatches->per_epoch();
  const auto least = minibatches->least_samples();
  wishes.plan.last_batch = reaches_tail && least < o.run.batch ? least : 0;
  if (o.plan.source == "auto")
    wishes.plan.shapes = actors::shape_shares(*net, *run.data.train, actors::training_batches(o.run));
  settle_pipeline(wishes, description, job, say, net, run);
  if (net->carries()) { // how long an epoch is depends on the replicas
    run.inputs.column_blocks = actors::column_blocks_of(*run.plan, o.run, job != nullptr ? &job->ranks() : nullptr);
    run.options.column_blocks = run.inputs.column_blocks;
    minibatches = minibatches_of(run.options, *run.data.train, *net, run.plan->frozen_until);
  }
  run.inputs.model_options = std::move(description);
  if (job != nullptr) run.inputs.ranks = &job->ranks();
  run.inputs.net = std::move(net);
  run.inputs.adapt_weights = find_model(o.model).adapt_weights;
  take_data(o, *minibatches, run);
  run.inputs.record = {
      {"--no-augment", o.augment ? "no" : "yes"},
      {"digest of some training samples", actors::sha256_of_text(sampled_digest(run.inputs.train)).substr(0, 12)}};
  if (job != nullptr) {
    job->ranks().control.doing("comparing model and data with the others");
    compare_ranks(*job, run);
    const auto where = actors::placement_of(*run.plan);
    for (int rank = 0; rank < where.ranks; ++rank)
      if (where.is_idle(rank)) run.notes.push_back(fmt::format("the plan has nothing to do for rank {}", rank));
  }
  if (o.pipeline.threads > 0) {
    const auto note = crowd_note(o.pipeline.threads, *run.plan, place_in(job).rank);
    if (!note.empty()) run.notes.push_back(note);
  }
  run.steps_per_epoch = minibatches->per_epoch();
  if (run.options.lr.total_steps == 0)
    run.options.lr.total_steps = o.run.steps > 0 ? o.run.steps : run.steps_per_epoch * o.run.epochs;
  if (o.control || !o.plan.changes.empty()) {
    run.settler = std::make_shared<const change_settler>(o, job, run);
    settle_changes(o, job, *run.settler, run);
  }
  return run;
}

} // namespace penstock::apps
