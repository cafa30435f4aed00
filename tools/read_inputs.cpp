// Files into the planner's words.
#include "tools/read_inputs.hpp"

#include "apps/runner/text_file.hpp"
#include "kernels/check.hpp"
#include "planner/profile/wording.hpp"

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <vector>

namespace penstock::tools {

namespace {} // namespace

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
  line.whole("--workers", texts.workers, 1, "Devices of one type on one link [none]");
  line.real("--bandwidth", texts.bandwidth, 1, 1e15, "Bytes a second of each device, each way [none]");
  line.real("--latency", texts.latency, 0, 1e3, "Seconds of a message");
  line.real("--memory", texts.memory, 0, 1e15, "Bytes of a device; 0: not limited");
}

bool is_given(const cluster_texts& texts) {
  return !texts.file.empty() || texts.workers > 0 || texts.bandwidth > 0 || texts.latency > 0 || texts.memory > 0;
}

planner::cluster read_cluster_options(const cluster_texts& texts) {
  if (!texts.file.empty()) {
    if (texts.workers > 0 || texts.bandwidth > 0 || texts.latency > 0 || texts.memory > 0)
      throw usage_error("--cluster: found --workers, --bandwidth, --latency or --memory beside it, wanted one or the "
                        "other");
    return read_cluster(texts.file);
  }
  if (texts.workers == 0) throw usage_error("wanted --cluster FILE, or --workers N --bandwidth BYTES_PER_S");
  if (texts.bandwidth == 0) throw usage_error("--workers: wanted --bandwidth BYTES_PER_S as well");
  auto cluster = planner::flat_cluster(texts.workers, texts.bandwidth, texts.latency, texts.memory);
  planner::check_cluster(cluster);
  return cluster;
}

std::string describe(const cluster_texts& texts) {
  if (!texts.file.empty()) return texts.file;
  auto text = std::to_string(texts.workers) + " devices, " + planner::number_text(texts.bandwidth) + " bytes/s";
  if (texts.latency > 0) text += ", " + planner::number_text(texts.latency) + " s";
  if (texts.memory > 0) text += ", " + planner::number_text(texts.memory) + " bytes each";
  return text;
}

} // namespace penstock::tools
