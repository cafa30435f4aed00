// Child processes with deadlines, over posix_spawn and poll.
#include "tests/support/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

extern char** environ; // NOLINT: POSIX names it so

namespace penstock::test {

namespace {

using clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what, int reason) {
  throw std::runtime_error("[process] " + what + ": " + std::strerror(reason));
}

// How long one look at pipes and conditions lasts; conditions other than output have nothing to poll for.
constexpr int slice_ms = 10;

struct channel {
  int mine = -1;
  int theirs = -1;
};

channel open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe", errno);
  return {ends[0], ends[1]};
}

channel open_terminal() {
  channel both;
  both.mine = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (both.mine < 0 || ::grantpt(both.mine) != 0 || ::unlockpt(both.mine) != 0) fail("pseudo-terminal", errno);
  std::array<char, 64> name{};
  if (::ptsname_r(both.mine, name.data(), name.size()) != 0) fail("pseudo-terminal", errno);
  both.theirs = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (both.theirs < 0) fail("pseudo-terminal", errno);
  const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ::ioctl(both.theirs, TIOCSWINSZ, &size);
  return both;
}

// Plans that a test's programs keep are the test's own.
std::vector<std::string> environment_with(std::map<std::string, std::string> more) {
  static const temporary_folder cache;
  more.emplace("XDG_CACHE_HOME", cache.path().string());
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!more.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : more)
    all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& t : texts)
    all.push_back(t.data());
  all.push_back(nullptr);
  return all;
}

void close_end(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

// Closed by the destructor, whatever posix_spawn says.
struct spawn_actions {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  spawn_actions() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~spawn_actions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  spawn_actions(const spawn_actions&) = delete;
  spawn_actions& operator=(const spawn_actions&) = delete;
};

} // namespace

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> process_result::error_lines() const {
  return lines_of(errors);
}

struct process::state {
  pid_t child = -1;
  bool ended = false;
  int status = 0;
  int output_end = -1;
  int errors_end = -1;
  std::string output;
  std::string errors;

  void take(int& end, std::string& into) {
    std::array<char, 65536> bytes{};
    const auto got = ::read(end, bytes.data(), bytes.size());
    if (got > 0) into.append(bytes.data(), static_cast<std::size_t>(got));
    // A pseudo-terminal reports EIO when the last writer is gone.
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) close_end(end);
  }

  // One look at both pipes, at most this long. False when there was nothing.
  bool pump(int timeout_ms) {
    std::array<pollfd, 2> ends{pollfd{output_end, POLLIN, 0}, pollfd{errors_end, POLLIN, 0}};
    if (::poll(ends.data(), ends.size(), timeout_ms) <= 0) return false;
    if (ends[0].revents != 0) take(output_end, output);
    if (ends[1].revents != 0) take(errors_end, errors);
    return true;
  }

  bool reap() {
    if (!ended && ::waitpid(child, &status, WNOHANG) == child) ended = true;
    return ended;
  }

  void kill_and_reap() {
    ::kill(-child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ended = true;
  }
};

process::process(std::vector<std::string> command, const process_options& options) : self_(std::make_unique<state>()) {
  channel out = options.terminal ? open_terminal() : open_pipe();
  channel err = open_pipe();
  auto variables = environment_with(options.variables);
  auto arguments = pointers(command);
  auto environment = pointers(variables);
  spawn_actions actions;
  posix_spawn_file_actions_addopen(&actions.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions.files, out.theirs, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions.files, err.theirs, STDERR_FILENO);
  if (!options.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions.files, options.folder.c_str());
  posix_spawnattr_setflags(&actions.attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&actions.attributes, 0);
  const int refused = ::posix_spawnp(&self_->child, arguments[0], &actions.files, &actions.attributes, arguments.data(),
                                     environment.data());
  close_end(out.theirs);
  close_end(err.theirs);
  self_->output_end = out.mine;
  self_->errors_end = err.mine;
  if (refused != 0) {
    close_end(self_->output_end);
    close_end(self_->errors_end);
    fail("cannot start " + command.front(), refused);
  }
}

process::~process() {
  if (!self_->reap()) self_->kill_and_reap();
  close_end(self_->output_end);
  close_end(self_->errors_end);
}

int process::id() const {
  return self_->child;
}

void process::send(int signal) {
  if (!self_->reap()) ::kill(self_->child, signal);
}

bool process::running() {
  return !self_->reap();
}

bool process::wait_until(const predicate& condition, duration deadline) {
  const auto end = clock::now() + deadline;
  while (true) {
    self_->pump(slice_ms);
    if (condition()) return true;
    if (!running()) {
      while (self_->pump(0)) {
      }
      return condition();
    }
    if (clock::now() >= end) return false;
  }
}

bool process::wait_for_output(std::string_view text, duration deadline) {
  return wait_until(
      [&] { return self_->output.find(text) != std::string::npos || self_->errors.find(text) != std::string::npos; },
      deadline);
}

bool process::wait_for_text(const std::filesystem::path& file, std::string_view text, duration deadline) {
  return wait_until([&] { return read_text(file).find(text) != std::string::npos; }, deadline);
}

process_result process::finish(duration deadline) {
  process_result result;
  const bool in_time = wait_until([this] { return !running(); }, deadline);
  if (!in_time) self_->kill_and_reap();
  while (self_->pump(0)) {
  }
  result.timed_out = !in_time;
  if (WIFEXITED(self_->status)) result.exit_code = WEXITSTATUS(self_->status);
  if (WIFSIGNALED(self_->status)) result.ended_by = WTERMSIG(self_->status);
  result.output = self_->output;
  result.errors = self_->errors;
  return result;
}

process_result run_process(std::vector<std::string> command, process::duration deadline,
                           const process_options& options) {
  return process(std::move(command), options).finish(deadline);
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

} // namespace penstock::test
