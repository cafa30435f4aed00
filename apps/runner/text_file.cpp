// Reads a file, or a pipe such as a shell's <(command), piece by piece. Nothing is waited for without end.
#include "apps/runner/text_file.hpp"

#include "kernels/check.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace penstock::apps {

namespace {

constexpr std::size_t largest_file = 256'000'000;
constexpr int longest_silence_ms = 60'000; // of who writes into a pipe

[[noreturn]] void cannot_read(const std::string& file, const std::string& why) {
  throw error("cannot read " + file + ": " + why);
}

struct descriptor {
  int number;
  ~descriptor() { ::close(number); }
};

// Returns 0 at the end, which is also what a pipe says that nobody has open for writing.
std::size_t read_some(const std::string& file, int from, std::vector<char>& part) {
  for (;;) {
    const auto got = ::read(from, part.data(), part.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) cannot_read(file, std::strerror(errno));
    pollfd wanted{from, POLLIN, 0};
    if (::poll(&wanted, 1, longest_silence_ms) == 0) cannot_read(file, "nothing has come out of it for a minute");
  }
}

} // namespace

std::string read_text_file(const std::string& file) {
  const auto refuse_size = [&] {
    throw std::invalid_argument(file + ": found more than 256 MB, wanted a smaller file");
  };
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const descriptor from{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  struct stat status {};
  if (from.number < 0 || ::fstat(from.number, &status) != 0) cannot_read(file, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) cannot_read(file, std::strerror(EISDIR));
  if (S_ISREG(status.st_mode) && static_cast<std::size_t>(status.st_size) > largest_file) refuse_size();
  std::string text;
  std::vector<char> part(1 << 16);
  while (const auto got = read_some(file, from.number, part)) {
    text.append(part.data(), got);
    if (text.size() > largest_file) refuse_size();
  }
  if (text.empty() && S_ISFIFO(status.st_mode)) cannot_read(file, "it is a pipe that nobody writes into");
  return text;
}

} // namespace penstock::apps
