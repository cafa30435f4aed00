// The bundled tool: lists models, trains them, reads traces, draws schedules.
#include "apps/models/describe.hpp"
#include "apps/models/registry.hpp"
#include "apps/runner/exit_codes.hpp"
#include "apps/runner/run_app.hpp"
#include "apps/runner/say.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "tools/commands.hpp"
#include "tools/trace/command.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>
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
  penstock replan FILE ...     change the plan of a running job
  penstock tokenizer ...       train a tokenizer, encode and decode text
  penstock trace ...           read a trace: summary, timeline, lifeline, check, diff, merge
  penstock score ...           score text: BLEU, captions, classes, SQuAD answers
  penstock version             the version

Each has --help; `penstock help trace summary` is the same.
)";

const std::vector<std::string> commands{"models", "train",  "profile",   "cluster", "plan",  "simulate", "schedule",
                                        "launch", "replan", "tokenizer", "trace",   "score", "version",  "help"};

bool asks_help(const std::string& word) {
  return word == "--help" || word == "-h";
}
bool asks_version(const std::string& word) {
  return word == "--version" || word == "-V";
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return apps::done;
}

int train_command(std::vector<std::string> arguments) {
  if (!arguments.empty() && asks_help(arguments.front()))
    return print(
        "Trains a model; the same as the app of that name.\nUsage: penstock train MODEL [OPTIONS]\n\n" +
        apps::describe_models() +
        "\n`penstock train MODEL --help` lists the options, which are the same for all. A model of a plug-in:\n"
        "penstock train MODEL --plugin FILE ...\n");
  if (arguments.empty() || arguments.front().starts_with('-')) {
    std::vector<std::string> names;
    for (const auto& entry : apps::built_in_models())
      names.push_back(entry.name);
    throw usage_error("train: wanted a model's name first, as in penstock train lenet ...; there are " +
                      join(names, ", "));
  }
  const auto model = arguments.front();
  const bool has_plugins = std::any_of(arguments.begin(), arguments.end(),
                                       [](const std::string& word) { return word.starts_with("--plugin"); });
  if (!has_plugins) apps::find_model(model); // refuses an unknown one
  std::vector<char*> words;
  for (auto& word : arguments)
    words.push_back(word.data());
  words.push_back(nullptr);
  return apps::run_app(model, static_cast<int>(words.size()) - 1, words.data());
}

// A trace's names come from whoever wrote it, so its texts go through the filter that all output does.
int trace_command(std::span<const std::string> arguments) {
  std::ostringstream out;
  std::ostringstream errors;
  const int code = actors::trace_command(arguments, out, errors);
  apps::say(out.view());
  std::fputs(printable_lines(errors.view()).c_str(), stderr);
  return code;
}

int run_command(const std::string& name, std::vector<std::string> arguments);

// "help", "help plan" and "help trace summary".
int help_command(std::vector<std::string> words) {
  if (words.empty() || asks_help(words.front()) || words.front() == "help") return print(help);
  const auto name = words.front();
  words.erase(words.begin());
  words.emplace_back("--help");
  return run_command(name, std::move(words));
}

int run_command(const std::string& name, std::vector<std::string> arguments) {
  if (asks_help(name)) return print(help);
  if (asks_version(name)) return print("penstock " PENSTOCK_VERSION "\n");
  if (name == "help") return help_command(std::move(arguments));
  if (arguments.size() == 1 && asks_version(arguments.front())) return run_command("--version", {});
  if (arguments.size() == 1 && arguments.front() == "help") arguments.front() = "--help";
  if (name == "models") return tools::models_command(arguments);
  if (name == "train") return train_command(std::move(arguments));
  if (name == "profile") return tools::profile_command(arguments);
  if (name == "cluster") return tools::cluster_command(arguments);
  if (name == "plan") return tools::plan_command(arguments);
  if (name == "simulate") return tools::simulate_command(arguments);
  if (name == "schedule") return tools::schedule_command(arguments);
  if (name == "launch") return tools::launch_command(arguments);
  if (name == "replan") return tools::replan_command(arguments);
  if (name == "score") return tools::score_command(arguments);
  if (name == "tokenizer") return tools::tokenizer_command(arguments);
  if (name == "trace") return trace_command(arguments);
  if (name == "version") {
    if (arguments.empty()) return run_command("--version", {});
    if (asks_help(arguments.front())) return print("Prints the version.\nUsage: penstock version\n");
    throw usage_error("version: unexpected argument " + in_quotes(arguments.front()));
  }
  throw usage_error("unknown command " + in_quotes(name) + did_you_mean(name, commands) + ", wanted one of " +
                    join(commands, ", "));
}

} // namespace

int main(int argc, char** argv) {
  return apps::run_guarded("penstock", [&]() -> int {
    if (argc < 2) {
      std::fputs(help, stderr);
      return apps::usage;
    }
    const int code = run_command(argv[1], {argv + 2, argv + argc});
    // What was printed is the result: a full disk behind it is a failure.
    const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (!is_written && code == 0) throw error("cannot write to standard output");
    return code;
  });
}
