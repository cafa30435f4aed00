// The launcher's own command line; everything behind "--" is the program's.
#include "tools/launch/options.hpp"

#include "apps/runner/command_line.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "transport/control/secret.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <unistd.h>

namespace penstock::tools::launcher {

namespace {

// Of one job; each rank of this machine takes the launcher two descriptors and several threads of the system's.
constexpr int most_ranks = 4096;

[[noreturn]] void refuse(const std::string& option, const std::string& found, const std::string& wanted) {
  throw usage_error(option + ": found " + in_quotes(found) + ", wanted " + wanted);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(word);
  return words;
}

bool is_program(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// mpirun's spelling, which is no option of the usual form.
std::string respelled(const std::string& argument) {
  return argument == "-np" ? "--np" : argument.starts_with("-np=") ? "-" + argument : argument;
}

} // namespace

std::optional<launch_options> read_options(std::span<const std::string> arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> own(arguments.begin(), dashes);
  std::transform(own.begin(), own.end(), own.begin(), respelled);

  launch_options options;
  std::string hosts;
  std::string ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10";
  std::string loss = "end";
  std::string tag = "yes";
  std::string secret_file;
  double grace = 3;
  double stop_grace = 60;
  apps::command_line line("penstock launch",
                          "penstock launch -np N [options] -- PROGRAM [arguments]: runs N ranks of a "
                          "program as one job.");
  line.whole("-n,--np", options.ranks, 1, most_ranks,
             "Ranks, at most " + std::to_string(most_ranks) + "; -np N is the same [one a slot of --hosts]");
  line.text("--hosts", hosts, "LIST", "host[:slots],…: ranks fill them in order [this machine]");
  line.text("--ssh", ssh, "COMMAND", "COMMAND HOST TEXT runs a shell's text on a host [ssh, which must not ask]");
  line.whole("--restart", options.restarts, 0, "Start again after a failure, at most so often");
  line.choice("--on-loss", loss, {"end", "shrink"}, "end or shrink: go on without a lost rank (not rank 0)");
  line.real("--grace", grace, 0, 86400, "Seconds that the other ranks have to end after a failure");
  line.real("--stop-grace", stop_grace, 0, 86400,
            "Seconds that the ranks have to finish and checkpoint after a signal; then they are killed");
  line.whole("--port", options.port, 0, 65535, "Where rank 0 listens [a free one]");
  line.text("--secret-file", secret_file, "FILE",
            "The job's secret, in a file of yours alone, for `penstock replan` [each start makes one]");
  line.choice("--tag-output", tag, {"yes", "no"}, "Put [rank] before the lines of several ranks");
  line.footer("Rank 0's output passes unchanged. SIGINT, SIGTERM and SIGUSR1 reach every rank; the same one within a "
              "second counts as one, a later one kills.\n"
              "The exit code is that of the first rank that failed, 128 + n where signal n ended it; 130 or 143 where "
              "SIGINT or SIGTERM to the launcher did.");
  const bool wants_help =
      std::find(own.begin(), own.end(), "--help") != own.end() || std::find(own.begin(), own.end(), "-h") != own.end();
  if (dashes == arguments.end() && !wants_help)
    throw usage_error("launch: no '--', wanted penstock launch -np N [options] -- PROGRAM [arguments]");
  if (!line.parse(own)) {
    std::fputs(line.help_text().c_str(), stdout);
    return std::nullopt;
  }
  options.command.assign(dashes + 1, arguments.end());
  if (options.command.empty()) throw usage_error("launch: nothing behind '--', wanted a program");
  if (line.given("--hosts")) options.hosts = parse_hosts(hosts);
  if (!line.given("--np"))
    for (const auto& each : options.hosts)
      options.ranks += each.slots;
  if (options.ranks < 1) throw usage_error("launch: neither -np N nor --hosts LIST is given");
  if (options.ranks > most_ranks)
    refuse("--hosts", std::to_string(options.ranks) + " slots", "at most " + std::to_string(most_ranks));
  options.ssh = words_of(ssh);
  if (options.ssh.empty()) refuse("--ssh", ssh, "a command");
  options.when_lost = loss == "shrink" ? on_loss::shrink : on_loss::end;
  if (!secret_file.empty()) options.secret = transport::read_secret_text("--secret-file", secret_file);
  options.is_tagged = tag == "yes";
  options.grace = milliseconds(grace);
  options.stop_grace = milliseconds(stop_grace);
  return options;
}

void check_program(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    if (is_program(program)) return;
    refuse("program", program, std::filesystem::exists(program) ? "a file that may be run" : "a file that exists");
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (is_program(std::filesystem::path(folder) / program)) return;
  refuse("program", program, "one that is on the PATH");
}

} // namespace penstock::tools::launcher
