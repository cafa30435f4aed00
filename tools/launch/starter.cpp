// Secret, socket and variables; then a process for each rank.
#include "tools/launch/starter.hpp"

#include "kernels/check.hpp"
#include "tools/launch/remote.hpp"
#include "transport/control/secret.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <netinet/in.h>
#include <random>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

extern char** environ; // NOLINT: POSIX names it so

namespace penstock::tools::launcher {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw error("launch: " + what + ": " + std::strerror(errno));
}

// Ranks read it whenever they like, again after they have replaced themselves; it has no name in any folder.
descriptor memory_file(const std::string& text) {
  descriptor file(::memfd_create("penstock-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto bytes = static_cast<ssize_t>(text.size());
  if (!file.is_open() || ::fchmod(file.get(), S_IRUSR) != 0 || ::write(file.get(), text.data(), text.size()) != bytes ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    fail("cannot keep the job's secret");
  return file;
}

descriptor listen_on_loopback(int& port) {
  descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  const bool is_listening = socket.is_open() &&
                            ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                            ::bind(socket.get(), raw, size) == 0 && ::listen(socket.get(), SOMAXCONN) == 0 &&
                            ::getsockname(socket.get(), raw, &size) == 0;
  if (!is_listening) fail("cannot listen on 127.0.0.1:" + std::to_string(port));
  port = ntohs(address.sin_port);
  return socket;
}

// For a host we cannot ask: below the ports that Linux hands out by itself.
int likely_free_port() {
  std::random_device source;
  return std::uniform_int_distribution<int>(15000, 32767)(source);
}

bool starts_with_any(const std::string& text, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* prefix) { return text.starts_with(prefix); });
}

// What one job says of its ranks is nothing to the next: a launcher may itself have been launched.
bool is_of_another_job(const std::string& variable) {
  return starts_with_any(
      variable,
      {"PENSTOCK_RANK=", "PENSTOCK_WORLD_SIZE=", "PENSTOCK_LOCAL_RANK=", "PENSTOCK_LOCAL_WORLD_SIZE=",
       "PENSTOCK_MASTER=", "PENSTOCK_LISTEN_FD=", "PENSTOCK_RESTARTS=", "PENSTOCK_ON_LOSS=", "PENSTOCK_HOSTS=",
       "PENSTOCK_FOLLOWER_CODE=", "PENSTOCK_SECRET=", "PENSTOCK_SECRET_FILE=", "PENSTOCK_LAUNCHER="});
}

std::vector<std::string> own_variables() {
  std::vector<std::string> result;
  for (char** each = environ; *each != nullptr; ++each)
    if (!is_of_another_job(*each)) result.emplace_back(*each);
  return result;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

} // namespace

starter::starter(const launch_options& options, const std::vector<place>& places, int restarts)
    : options_(options), ranks_(static_cast<int>(places.size())), restarts_(restarts),
      has_remote_(std::any_of(places.begin(), places.end(), [](const place& p) { return !p.is_here(); })),
      secret_(options.secret.empty() ? transport::make_secret_text() : options.secret),
      secret_file_(memory_file(secret_)) {
  int port = options.port;
  if (!has_remote_)
    listener_ = listen_on_loopback(port);
  else if (port == 0)
    port = likely_free_port();
  master_ = (has_remote_ ? options.hosts.front().host : "127.0.0.1") + ":" + std::to_string(port);
}

std::vector<std::string> starter::variables_of(const place& where) const {
  std::vector<std::string> result{"PENSTOCK_RANK=" + std::to_string(where.rank),
                                  "PENSTOCK_WORLD_SIZE=" + std::to_string(ranks_),
                                  "PENSTOCK_LOCAL_RANK=" + std::to_string(where.local_rank),
                                  "PENSTOCK_LOCAL_WORLD_SIZE=" + std::to_string(where.local_size),
                                  "PENSTOCK_MASTER=" + master_,
                                  "PENSTOCK_RESTARTS=" + std::to_string(restarts_),
                                  "PENSTOCK_FOLLOWER_CODE=" + std::to_string(follower_code)};
  if (has_remote_) result.emplace_back("PENSTOCK_HOSTS=1");
  if (options_.when_lost == on_loss::shrink) result.emplace_back("PENSTOCK_ON_LOSS=shrink");
  // A program that wants more threads than its share says so; many OpenMP teams on one host would fight for it.
  if (std::getenv("OMP_NUM_THREADS") == nullptr) result.emplace_back("OMP_NUM_THREADS=1");
  return result;
}

void starter::prepare_here(spawn_request& request, const place& where) const {
  request.command = options_.command;
  append(request.variables, variables_of(where));
  request.variables.push_back("PENSTOCK_SECRET_FILE=/dev/fd/" + std::to_string(secret_file_.get()));
  request.inherited.push_back(secret_file_.get());
  request.variables.push_back("PENSTOCK_LAUNCHER=" + std::to_string(::getpid())); // whose signals are passed on
  if (where.rank != 0) return;
  if (listener_.is_open()) {
    request.variables.push_back("PENSTOCK_LISTEN_FD=" + std::to_string(listener_.get()));
    request.inherited.push_back(listener_.get());
  }
  if (::isatty(STDOUT_FILENO) != 0) request.output = STDOUT_FILENO;
}

pipe_ends starter::prepare_there(spawn_request& request, const place& where) const {
  auto variables = variables_of(where);
  for (const auto& variable : request.variables)
    if (starts_with_any(variable, {"PENSTOCK_", "UCX_", "OMP_"})) variables.push_back(variable);
  request.command =
      remote_command(options_.ssh, where.host, std::filesystem::current_path(), variables, options_.command);
  auto orders = open_pipe();
  const auto line = secret_ + "\n";
  if (::write(orders.write.get(), line.data(), line.size()) != std::ssize(line))
    throw error(std::string("cannot hand over the secret: ") + std::strerror(errno));
  ::fcntl(orders.write.get(), F_SETFL, O_NONBLOCK);
  request.input = orders.read.get();
  return orders;
}

rank_process starter::start(const place& where, line_reader::line_handler on_output,
                            line_reader::line_handler on_errors) const {
  auto output = open_pipe();
  auto errors = open_pipe();
  pipe_ends orders;
  spawn_request request;
  request.output = output.write.get();
  request.errors = errors.write.get();
  request.variables = own_variables();
  if (where.is_here())
    prepare_here(request, where);
  else
    orders = prepare_there(request, where);
  rank_process rank(where, spawn(request), std::move(orders.write));
  for (const int ours : {output.read.get(), errors.read.get()})
    ::fcntl(ours, F_SETFL, O_NONBLOCK);
  rank.output = line_reader(std::move(output.read), std::move(on_output));
  rank.errors = line_reader(std::move(errors.read), std::move(on_errors));
  return rank;
}

} // namespace penstock::tools::launcher
