// `penstock plan`: from a profile and a cluster to the plan that wins.
#include "apps/runner/options.hpp"
#include "apps/runner/output_files.hpp"
#include "apps/runner/request_fault.hpp"
#include "apps/runner/say.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "planner/explore/explore.hpp"
#include "tools/commands.hpp"
#include "tools/plan_text.hpp"
#include "tools/read_inputs.hpp"

#include <algorithm>
#include <cstdio>

namespace penstock::tools {

namespace {

struct plan_texts {
  std::string profile;
  cluster_texts cluster;
  std::int64_t graph_samples = 1;
  double profile_scale = 1;
  std::string schedules, microbatches, replicas, cuts;
  std::string optimizer = "momentum";
  bool explain = false;
  std::string output;
};

void declare(apps::command_line& line, plan_texts& texts, planner::plan_request& request) {
  line.positional("PROFILE", texts.profile, "Of `penstock profile`, or a graph.txt of PipeDream's");
  line.group("Cluster");
  declare_cluster_options(line, texts.cluster);
  line.whole("--devices", request.devices, 1, "Use no more of them than these [all]");
  line.group("Training");
  line.whole("--batch", request.batch, 1, 1'000'000'000, "Samples of a minibatch [the profile's largest micro-batch]");
  line.choice("--optimizer", texts.optimizer, {"sgd", "momentum", "adam", "adamw", "asgd"},
              "sgd, momentum, adam, adamw or asgd: what its state takes");
  line.text("--frozen-until", request.frozen_until, "LAYER", "Layers before it are frozen: forwards alone [none]");
  line.whole("--ahead", request.ahead, 0, 1'000'000,
             "Micro-batches that wholly frozen stages may run ahead by [replicas of the first active stage]");
  line.flag("--synchronous", request.synchronous_only, "Only schedules without stale weights");
  line.off("--no-recompute", request.allow_recompute, "Never compute a forward twice to save memory");
  line.group("What is fixed by hand");
  line.text("--schedule", texts.schedules, "NAME,...", "Schedules to try [all that apply]");
  line.text("--microbatches", texts.microbatches, "M,...", "Micro-batches to try [powers of two]");
  line.whole("--stages", request.stages, 1, "Stages, of interleaved worker positions [free]");
  line.whole("--chunks", request.chunks, 1, "Of interleaved: chunks on each worker position [2 to 4 are tried]");
  line.text("--replicas", texts.replicas, "R0,R1,...", "Replicas of each stage [free]");
  line.text("--cuts", texts.cuts, "LAYER,...", "Where stages 1, 2, ... begin [free]");
  line.texts("--keep-together", request.keep_together, "LAYERS",
             "Not cut: a block's name, or FIRST..LAST (repeatable)");
  line.text("--in-flight", request.in_flight, "SPEC", "Credits K: tight, double, full or K0,K1,... [free]");
  line.text("--update-lag", request.update_lag, "SPEC",
            "Updates that pipedream's forwards read later: D, or D0,D1,... [free: 0 or 1 where replicated]");
  line.group("Files and text");
  line.whole("--graph-samples", texts.graph_samples, 1, most_graph_samples,
             "Samples of the minibatches a graph.txt was made with");
  line.real("--profile-scale", texts.profile_scale, 1e-6, 1e6,
            "Times the profile's times and activations: 0.52 where it has 48 tokens a sequence and training 25");
  line.flag("--explain", texts.explain, "Show what was considered, and why it was not taken");
  line.text("-o,--output", texts.output, "FILE", "The plan, JSON");
}

int optimizer_copies(const std::string& name) {
  return name.starts_with("adam") ? 2 : name == "momentum" || name == "asgd" ? 1 : 0;
}

planner::plan_request read_request(const plan_texts& texts, planner::plan_request request) {
  request.optimizer_copies = optimizer_copies(texts.optimizer);
  if (!texts.schedules.empty()) request.schedules = apps::parse_words("--schedule", texts.schedules);
  if (!texts.microbatches.empty()) request.microbatches = apps::parse_counts("--microbatches", texts.microbatches, 1);
  if (!texts.replicas.empty()) request.replicas = apps::parse_counts("--replicas", texts.replicas, 1);
  if (!texts.cuts.empty()) request.first_layers = apps::parse_words("--cuts", texts.cuts);
  return request;
}

/// The threads of a worker, where all types agree.
int threads_of(const planner::cluster& c) {
  const auto threads = c.devices.front().threads;
  const bool agree =
      std::all_of(c.devices.begin(), c.devices.end(), [&](const auto& type) { return type.threads == threads; });
  return agree ? threads : 0;
}

} // namespace

int plan_command(std::span<const std::string> arguments) {
  plan_texts texts;
  planner::plan_request request;
  apps::command_line line("penstock plan", "Finds how to cut, replicate and schedule a model on a cluster.");
  declare(line, texts, request);
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  if (texts.profile.empty()) throw usage_error("plan: wanted a profile's file: penstock plan PROFILE --cluster FILE");
  request = read_request(texts, std::move(request));
  if (!texts.output.empty()) apps::check_output_file("--output", texts.output);
  auto profile = read_profile(texts.profile, texts.graph_samples);
  if (texts.profile_scale != 1) profile = planner::scaled(std::move(profile), texts.profile_scale);
  const auto cluster = read_cluster_options(texts.cluster);
  auto plan = [&] {
    try {
      return planner::make_plan(profile, cluster, request);
    } catch (const std::invalid_argument& fault) {
      throw usage_error(apps::request_fault(fault.what()));
    }
  }();
  if (plan.threads == 0) plan.threads = threads_of(cluster);
  plan.inputs["profile"] = texts.profile;
  plan.inputs["cluster"] = describe(texts.cluster);
  auto text = describe_plan(plan);
  if (texts.explain) text += "\nconsidered:\n" + explain_plan(plan);
  if (!texts.output.empty()) {
    atomic_file file(texts.output);
    file.write(planner::to_json(plan));
    file.commit();
  }
  apps::say(text);
  return 0;
}

} // namespace penstock::tools
