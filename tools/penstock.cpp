// The bundled tool: lists models, trains them, reads traces, draws schedules.
#include "actors/trace/command.hpp"
#include "apps/runner/exit_codes.hpp"
#include "apps/runner/run_app.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "tools/commands.hpp"

#include <cstdio>
#include <iostream>
#include <vector>

namespace {

using namespace penstock;

constexpr const char* help = R"(penstock: pipeline-parallel training with actors

  penstock models [NAME]       the models, or one model's layers
  penstock train MODEL ...     train; the same as the app of that name, and for models of plug-ins
  penstock profile MODEL ...   measure a model's layers
  penstock cluster measure     describe this machine's workers, or a job's
  penstock plan PROFILE ...    find how to cut, replicate and schedule it
  penstock simulate PLAN ...   play a plan under a virtual clock
  penstock schedule ...        draw what each stage does when
  penstock launch -np N -- APP ...   run an app as N processes, here or on --hosts
  penstock trace ...           read a trace: summary, timeline, lifeline, check, diff, merge
  penstock version             the version

Each has --help.
)";

int train_command(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-')
    throw usage_error("train: wanted a model's name first: penstock train MODEL ...; `penstock models` lists them");
  return apps::run_app(argv[1], argc - 1, argv + 1);
}

// argv[0] is the command's own name.
int run_command(int argc, char** argv) {
  const std::string name = argv[0];
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (name == "models") return tools::models_command(arguments);
  if (name == "train") return train_command(argc, argv);
  if (name == "profile") return tools::profile_command(arguments);
  if (name == "cluster") return tools::cluster_command(arguments);
  if (name == "plan") return tools::plan_command(arguments);
  if (name == "simulate") return tools::simulate_command(arguments);
  if (name == "schedule") return tools::schedule_command(arguments);
  if (name == "launch") return tools::launch_command(arguments);
  if (name == "trace") return actors::trace_command(arguments, std::cout, std::cerr);
  if (name == "version" || name == "--version") {
    std::puts("penstock " PENSTOCK_VERSION);
    return apps::done;
  }
  if (name == "help" || name == "--help" || name == "-h") {
    std::fputs(help, stdout);
    return apps::done;
  }
  const std::vector<std::string> known{"models",   "train",  "profile", "cluster", "plan", "simulate",
                                       "schedule", "launch", "trace",   "version", "help"};
  throw usage_error("unknown command '" + name.substr(0, 80) + "'" + did_you_mean(name, known) + ", wanted one of " +
                    join(known, ", "));
}

} // namespace

int main(int argc, char** argv) {
  return apps::run_guarded("penstock", [&]() -> int {
    if (argc < 2) {
      std::fputs(help, stderr);
      return apps::usage;
    }
    const int code = run_command(argc - 1, argv + 1);
    // What was printed is the result: a full disk behind it is a failure.
    const bool is_written = std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (!is_written && code == 0) throw error("cannot write to standard output");
    return code;
  });
}
