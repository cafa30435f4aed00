// `penstock profile`: measures a model for the planner.
#include "actors/profiler/profile_model.hpp"
#include "apps/data/data.hpp"
#include "apps/plugins/load_plugin.hpp"
#include "apps/runner/network.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/output_files.hpp"
#include "apps/runner/progress.hpp"
#include "apps/runner/say.hpp"
#include "apps/runner/text_table.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "kernels/device_kinds.hpp"
#include "tools/commands.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>

namespace penstock::tools {

namespace {

constexpr int most_samples = 1 << 24;
constexpr int most_workers = 1024;

struct profile_texts {
  std::string model, samples, workers, output;
  std::int64_t batch = 32;
};

// A minibatch and the micro-batches of its halves, quarters and eighths.
std::vector<std::int64_t> sizes_of(const profile_texts& t, std::int64_t least) {
  std::vector<std::int64_t> sizes;
  if (!t.samples.empty()) {
    for (const int n : apps::parse_counts("--samples", t.samples, 1, most_samples))
      sizes.push_back(n);
    return sizes;
  }
  std::set<std::int64_t> distinct;
  for (const std::int64_t parts : {1, 2, 4, 8})
    distinct.insert(std::max(least, t.batch / parts));
  return {distinct.begin(), distinct.end()};
}

std::vector<actors::shape_share> shapes_of(const apps::app_options& o, const apps::built_network& built,
                                           std::int64_t batch) {
  return apps::of_option("--data", [&] {
    const auto data = apps::open_data(
        {.spec = o.data, .classes = built.network.classes, .seed = o.run.seed, .net = built.net.get(), .text = o.text});
    return actors::shape_shares(*built.net, *data.train, {.batch = batch, .seed = o.run.seed});
  });
}

// "25 x 27 in 40%, ..."
std::string describe(const std::vector<actors::shape_share>& shapes) {
  std::string text;
  for (const auto& s : shapes) {
    text += text.empty() ? "lengths: " : ", ";
    for (std::size_t e = 0; e < s.extents.size(); ++e)
      text += (e > 0 ? " x " : "") + std::to_string(s.extents[e]);
    text += s.share > 0 ? " in " + std::to_string(std::lround(100 * s.share)) + "%" : " at most";
  }
  return text.empty() ? text : text + "\n";
}

std::string describe(const planner::profile& p) {
  std::vector<std::vector<std::string>> rows{
      {"samples", "threads", "forward", "backward", "update", "kept for backward", "largest workspace"}};
  const auto milliseconds = [](double s) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f ms", 1e3 * s);
    return std::string(text);
  };
  for (const auto& m : p.measurements) {
    planner::layer_cost sum;
    for (const auto& l : m.layers) {
      sum.forward_seconds += l.forward_seconds;
      sum.backward_seconds += l.backward_seconds;
      sum.kept_bytes += l.kept_bytes;
      sum.workspace_bytes = std::max(sum.workspace_bytes, l.workspace_bytes);
    }
    const double update = std::accumulate(m.update_seconds.begin(), m.update_seconds.end(), 0.0);
    rows.push_back({std::to_string(m.samples), std::to_string(m.threads), milliseconds(sum.forward_seconds),
                    milliseconds(sum.backward_seconds), milliseconds(update),
                    apps::byte_text(static_cast<std::int64_t>(sum.kept_bytes)),
                    apps::byte_text(static_cast<std::int64_t>(sum.workspace_bytes))});
  }
  return apps::text_table(rows);
}

} // namespace

int profile_command(std::span<const std::string> arguments) {
  profile_texts texts;
  apps::app_options network;
  network.network.classes = 0;
  if (!arguments.empty() && !arguments[0].starts_with('-')) network.model = arguments[0];
  actors::profile_options options;
  options.warmup = 2;
  apps::command_line line("penstock profile", "Measures every layer of a model as a stage would run it.");
  line.positional("MODEL", texts.model, "A model; `penstock models` lists them");
  line.group("Model");
  apps::declare_model_options(line, network);
  line.group("What is measured");
  const auto* entry = apps::known_model(network.model);
  if (entry != nullptr && !entry->takes_images)
    line.text("--data", network.data, "SPEC", "Data whose lengths are weighed, instead of --length");
  line.whole("--batch", texts.batch, 1, most_samples,
             "Samples of a minibatch; its half, quarter and eighth are measured as well");
  line.text("--samples", texts.samples, "N,N,...", "Micro-batch sizes instead");
  line.text("--workers", texts.workers, "N,N,...", "Workers that compute at once [each divisor of the cores]");
  line.choice("--optimizer", options.optimizer.name, {"sgd", "adam", "adamw", "asgd"}, "sgd, adam, adamw or asgd");
  line.real("--momentum", options.optimizer.momentum, 0, 1, "SGD's momentum");
  line.flag("--reference-kernels", options.reference_kernels, "Plain loops instead of oneDNN");
  line.text("--device", options.device, "NAME", "What computes: cpu, cuda, or a kind of device that a plug-in brings");
  line.whole("--warmup", options.warmup, 0, 1000, "Passes before any that counts");
  line.whole("--repeats", options.repeats, 3, 100'000, "Passes at most of each size");
  line.real("--seconds", options.seconds, 0, 1e6, "No more passes of one size after this long, but three at least");
  line.group("Files");
  line.text("-o,--output", texts.output, "FILE", "The profile, JSON");
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  if (texts.model.empty()) throw usage_error("profile: wanted a model's name: penstock profile MODEL ...");
  network.model = texts.model;
  options.workers = texts.workers.empty() ? actors::useful_worker_counts()
                                          : apps::parse_counts("--workers", texts.workers, 1, most_workers);
  const auto built =
      apps::build_network(network, apps::of_option("--plugin", [&] { return apps::load_plugins(network.plugins); }));
  apps::of_option("--device", [&] { open_device(options.device, 0); }); // can it be had?
  options.samples = sizes_of(texts, built.net->least_training_samples().samples);
  const bool weighs_data = entry != nullptr && !entry->takes_images && line.given("--data");
  if (weighs_data) options.shapes = shapes_of(network, built, texts.batch);
  if (!texts.output.empty()) apps::check_output_file("--output", texts.output);
  planner::profile measured;
  {
    apps::progress shown(stderr);
    const auto title = "profiling " + network.model;
    shown.part({.what = title});
    options.progress = [&](int done, int total, const std::string& what) {
      shown.part({title, done, total, "passes, " + what, false});
      return true;
    };
    measured = actors::profile_model(built.net, built.description, options);
  }
  if (!texts.output.empty()) {
    atomic_file file(texts.output);
    file.write(planner::to_json(measured));
    file.commit();
  }
  auto text = built.description + ": " + std::to_string(measured.layers.size()) + " layers\n" +
              describe(options.shapes) + describe(measured);
  for (const auto& doubt : measured.doubts)
    text += "doubtful, perhaps because something else runs here: " + doubt + "\n";
  apps::say(text);
  return 0;
}

} // namespace penstock::tools
