// `penstock cluster measure`: describes this machine for the planner.
#include "actors/profiler/measure_machine.hpp"
#include "apps/runner/command_line.hpp"
#include "apps/runner/output_files.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "tools/commands.hpp"

#include <cstdio>

namespace penstock::tools {

int cluster_command(std::span<const std::string> arguments) {
  std::string action;
  std::string output;
  int workers = actors::usable_cores();
  apps::command_line line("penstock cluster",
                          "measure: the workers of this machine, their memory, and what a message between them costs.");
  line.positional("measure", action, "What to do");
  line.whole("--workers", workers, 1, "Workers in one process");
  line.text("-o,--output", output, "FILE", "The cluster, TOML [shown]");
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  if (action != "measure") throw usage_error("cluster: found '" + action.substr(0, 80) + "', wanted measure");
  if (workers > 1024) throw usage_error("--workers: found " + std::to_string(workers) + ", wanted at most 1024");
  if (!output.empty()) apps::check_output_file("--output", output);
  const auto text = planner::to_toml(actors::measure_machine(workers));
  if (output.empty()) {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  atomic_file file(output);
  file.write(text);
  file.commit();
  return 0;
}

} // namespace penstock::tools
