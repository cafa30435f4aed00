// `penstock cluster measure`: describes this machine, or the processes of a job, for the planner.
#include "actors/profiler/measure_machine.hpp"
#include "actors/profiler/measure_ranks.hpp"
#include "apps/runner/app_job.hpp"
#include "apps/runner/command_line.hpp"
#include "apps/runner/output_files.hpp"
#include "apps/runner/say.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "kernels/usable_cores.hpp"
#include "tools/commands.hpp"

#include <cstdio>
#include <optional>

namespace penstock::tools {

namespace {

// Every rank of a job measures; rank 0 has the result. Nothing: it failed, and rank 0 tells the user.
std::optional<std::string> measure_job(const apps::job_options& given, const transport::launch& where) {
  const auto warn = [](const std::string& text) { apps::complain("penstock", text); };
  apps::app_job job(given, {}, where, warn);
  try {
    job.ranks().control.doing("measuring links");
    const auto c = actors::measure_ranks(job.ranks(), warn);
    job.leave();
    return job.is_first() ? planner::to_toml(c) : "";
  } catch (const std::exception& e) {
    if (job.fail(e.what())) return std::nullopt;
    throw;
  }
}

std::optional<std::string> measure(int workers, const apps::job_options& given) {
  const auto where = apps::find_launch(given);
  if (where.size > 1) return measure_job(given, where);
  if (!where.unused.empty()) apps::complain("penstock", "one process, " + apps::started_by(where));
  return planner::to_toml(actors::measure_machine(workers));
}

} // namespace

int cluster_command(std::span<const std::string> arguments) {
  std::string action;
  std::string output;
  int workers = usable_cores();
  apps::command_line line(
      "penstock cluster",
      "measure: the workers of this machine, their memory, and what a message between them costs. Under "
      "`penstock launch` the workers are the processes.");
  line.positional("measure", action, "What to do");
  line.whole("--workers", workers, 1, 1024, "Workers in one process");
  line.text("-o,--output", output, "FILE", "The cluster, TOML [shown]");
  apps::job_options job_given;
  apps::declare_job_options(line, job_given);
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  if (action != "measure") throw usage_error("cluster: found " + in_quotes(action) + ", wanted measure");
  if (!output.empty()) apps::check_output_file("--output", output);
  const auto text = measure(workers, job_given);
  if (!text) return 1;
  if (text->empty()) return 0;
  if (output.empty()) {
    apps::say(*text);
    return 0;
  }
  atomic_file file(output);
  file.write(*text);
  file.commit();
  return 0;
}

} // namespace penstock::tools
