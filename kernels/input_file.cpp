// Opens without waiting, looks at what was opened, reads by offset.
#include "kernels/input_file.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace penstock {

input_file::input_file(std::filesystem::path file) : file_(std::move(file)) {
  // O_NONBLOCK: opening a pipe must not wait for a writer. O_NOCTTY: a terminal must not become this process's.
  do {
    descriptor_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail("cannot read: " + std::generic_category().message(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(std::exchange(descriptor_, -1));
    fail(std::string("cannot read: ") + (S_ISDIR(status.st_mode) ? "it is a folder" : "it is not a regular file"));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

input_file::~input_file() {
  ::close(descriptor_);
}

std::size_t input_file::read_some(std::uint64_t offset, void* bytes, std::size_t size) const {
  constexpr std::size_t most_at_once = std::size_t{1} << 30;
  for (;;) {
    const ssize_t done = ::pread(descriptor_, bytes, std::min(size, most_at_once), static_cast<off_t>(offset));
    if (done >= 0) return static_cast<std::size_t>(done);
    if (errno != EINTR) fail("cannot read: " + std::generic_category().message(errno));
  }
}

void input_file::read(std::uint64_t offset, void* bytes, std::size_t size) const {
  auto* next = static_cast<char*>(bytes);
  while (size > 0) {
    const auto done = read_some(offset, next, size);
    if (done == 0) fail("the file became shorter while it was read");
    next += done;
    offset += done;
    size -= done;
  }
}

void input_file::fail(const std::string& what) const {
  throw error(file_.string() + ": " + what);
}

std::string read_whole_file(const std::filesystem::path& name, std::uint64_t most) {
  const input_file file(name);
  if (file.size() > most)
    file.fail("found " + std::to_string(file.size()) + " bytes, wanted at most " + std::to_string(most));
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

} // namespace penstock
