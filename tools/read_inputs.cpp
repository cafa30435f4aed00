// Files into the planner's words.
#include "tools/read_inputs.hpp"

#include "apps/runner/quantity.hpp"
#include "apps/runner/text_file.hpp"
#include "kernels/check.hpp"
#include "planner/profile/wording.hpp"

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <vector>

namespace penstock::tools {

namespace {

bool describes_devices(const cluster_texts& texts) {
  return texts.workers > 0 || !texts.bandwidth.empty() || !texts.latency.empty() || !texts.memory.empty();
}

struct flat_amounts {
  double bandwidth = 0, latency = 0, memory = 0;
};

flat_amounts amounts_of(const cluster_texts& texts) {
  flat_amounts a{.bandwidth = apps::parse_bandwidth("--bandwidth", texts.bandwidth)};
  if (!texts.latency.empty()) a.latency = apps::parse_seconds("--latency", texts.latency);
  if (!texts.memory.empty()) a.memory = apps::parse_bytes("--memory", texts.memory);
  return a;
}

} // namespace

planner::profile read_profile(const std::string& file, std::int64_t graph_samples) {
  const auto text = apps::read_text_file(file);
  const auto first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf"); // the last three: a byte order mark
  if (first == std::string::npos || text[first] == '{') return planner::read_profile(text, file);
  return planner::profile_from_graph(text, file, graph_samples);
}

planner::cluster read_cluster(const std::string& file) {
  auto cluster = planner::cluster_from_toml(apps::read_text_file(file), file);
  const auto folder = std::filesystem::path(file).parent_path();
  for (auto& type : cluster.devices)
    if (!type.profile_name.empty())
      type.own_profile =
          std::make_shared<const planner::profile>(read_profile((folder / type.profile_name).string(), 1));
  return cluster;
}

planner::plan read_plan(const std::string& file) {
  auto plan = planner::plan_from_json(apps::read_text_file(file), file);
  naming(file, [&] { planner::check_plan(plan); });
  return plan;
}

void declare_cluster_options(apps::command_line& line, cluster_texts& texts) {
  line.text("--cluster", texts.file, "FILE", "What it runs on, TOML; or instead:");
  line.whole("--workers", texts.workers, 1, 65'536, "Devices of one type on one link [none]");
  line.text("--bandwidth", texts.bandwidth, "AMOUNT",
            "Of each device, each way: 1.25e9 or 1.25GB/s (bytes), 10Gb/s (bits) [none]");
  line.text("--latency", texts.latency, "TIME", "Of a message: 0.00002 (seconds) or 20us [0]");
  line.text("--memory", texts.memory, "AMOUNT", "Of a device: 16e9 or 16GB, 16GiB [not limited]");
}

bool is_given(const cluster_texts& texts) {
  return !texts.file.empty() || describes_devices(texts);
}

planner::cluster read_cluster_options(const cluster_texts& texts) {
  if (!texts.file.empty()) {
    if (describes_devices(texts))
      throw usage_error("--cluster: found --workers, --bandwidth, --latency or --memory beside it, wanted one or the "
                        "other");
    return read_cluster(texts.file);
  }
  if (texts.workers == 0) throw usage_error("wanted --cluster FILE, or --workers N --bandwidth BYTES_PER_S");
  if (texts.bandwidth.empty()) throw usage_error("--workers: wanted --bandwidth BYTES_PER_S as well");
  const auto [bandwidth, latency, memory] = amounts_of(texts);
  auto cluster = planner::flat_cluster(texts.workers, bandwidth, latency, memory);
  planner::check_cluster(cluster);
  return cluster;
}

std::string describe(const cluster_texts& texts) {
  if (!texts.file.empty()) return texts.file;
  const auto [bandwidth, latency, memory] = amounts_of(texts);
  auto text = std::to_string(texts.workers) + " devices, " + planner::number_text(bandwidth) + " bytes/s";
  if (latency > 0) text += ", " + planner::number_text(latency) + " s";
  if (memory > 0) text += ", " + planner::number_text(memory) + " bytes each";
  return text;
}

} // namespace penstock::tools
