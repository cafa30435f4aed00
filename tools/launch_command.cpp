// `penstock launch`: runs the ranks of a job and starts it again where asked to.
#include "actors/profiler/measure_machine.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "kernels/usable_cores.hpp"
#include "tools/commands.hpp"
#include "tools/launch/job.hpp"
#include "tools/launch/options.hpp"
#include "tools/launch/spawn.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace penstock::tools {

namespace {

using namespace launcher;

// A pipe that took the number of a closed standard stream would be taken for it.
void open_standard_streams() {
  int number = 0;
  do {
    number = ::open("/dev/null", O_RDWR);
  } while (number >= 0 && number <= STDERR_FILENO);
  if (number > STDERR_FILENO) ::close(number);
}

// They would run, but none of them fast; who asks for so many has most likely mistyped the number.
void warn_of_crowd(const std::vector<place>& places, outlet& out) {
  constexpr int most_on_a_core = 4;
  const int cores = usable_cores();
  const auto here = std::count_if(places.begin(), places.end(), [](const place& p) { return p.is_here(); });
  if (here > most_on_a_core * cores)
    out.put(STDERR_FILENO, "penstock launch: warning: " + std::to_string(here) +
                               " ranks on this machine, cores for them: " + std::to_string(cores) + "\n");
}

// What is left goes out at the speed of whoever reads it, as a program's own writing would; a signal ends the wait, and
// after one there is none.
void flush(outlet& out, signal_inbox& signals, bool is_by_user) {
  while (!out.is_empty()) {
    std::array<pollfd, 2> polled{pollfd{out.writable(), POLLOUT, 0}, pollfd{signals.readable(), POLLIN, 0}};
    const int ready = ::poll(polled.data(), polled.size(), is_by_user ? 1000 : -1);
    if (ready == 0) return;
    if (ready > 0 && polled[0].revents != 0) out.write_some();
    const auto came = signals.take();
    if (std::any_of(came.begin(), came.end(), [](int s) { return s != SIGCHLD && s != SIGUSR1; })) return;
  }
}

} // namespace

int launch_command(std::span<const std::string> arguments) {
  const auto options = read_options(arguments);
  if (!options) return 0;
  const auto places = place_ranks(options->ranks, options->hosts);
  if (std::any_of(places.begin(), places.end(), [](const place& p) { return p.is_here(); }))
    check_program(options->command.front());
  else
    check_program(options->ssh.front());
  open_standard_streams();
  adopt_orphans();
  signal_inbox signals;
  outlet out;
  warn_of_crowd(places, out);
  job_result result;
  for (int restarts = 0;; ++restarts) {
    result = job(*options, places, signals, out).run(restarts);
    if (result.cause.empty()) break;
    const bool tries_again = result.may_try_again && restarts < options->restarts;
    out.put(STDERR_FILENO, "penstock launch: " + one_line(result.cause) +
                               (tries_again ? "; starting again, " + std::to_string(restarts + 1) + " of " +
                                                  std::to_string(options->restarts)
                                            : "") +
                               "\n");
    if (!tries_again) break;
  }
  flush(out, signals, result.is_by_user);
  if (out.has_lost_output() && result.exit_code == 0) throw error("launch: cannot write the ranks' output");
  return result.exit_code;
}

} // namespace penstock::tools
