// Files that appear whole or not at all: temporary file, fsync, rename, fsync of the folder.
#include "kernels/atomic_file.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace penstock {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* doing, int reason) {
  throw error(file.string() + ": " + doing + ": " + std::generic_category().message(reason));
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// A link is followed, so that it still points at the new contents. Anything else that is no plain file must not be
// replaced by one: a rename would put a file in the place of /dev/null.
std::filesystem::path final_place(const std::filesystem::path& file) {
  if (!file.has_filename()) throw error("'" + file.string() + "': cannot write: no file name");
  std::error_code reason;
  auto place = std::filesystem::is_symlink(file, reason) ? std::filesystem::weakly_canonical(file, reason) : file;
  if (place.empty()) fail(file, "cannot write", reason.value());
  const auto kind = std::filesystem::status(place, reason).type();
  if (kind == std::filesystem::file_type::directory) throw error(file.string() + ": cannot write: it is a folder");
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular) {
    if (reason) fail(file, "cannot write", reason.value());
    throw error(file.string() + ": cannot write: it is not a regular file");
  }
  return place;
}

// The name does not contain the file's own, which may already be as long as names can be.
std::filesystem::path temporary_name(const std::filesystem::path& file) {
  static std::atomic<unsigned> counter{0};
  return folder_of(file) / (".penstock-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp");
}

void sync_folder(const std::filesystem::path& file) {
  const int folder = ::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail(file, "cannot open its folder", errno);
  const int reason = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  // Some file systems cannot sync a folder; then the rename is as durable as it can be.
  if (reason != 0 && reason != EINVAL && reason != ENOTSUP) fail(file, "cannot sync its folder", reason);
}

// Names of files being written, where a signal handler may read them.
struct note {
  enum state : int { free, changing, valid };
  std::atomic<int> is{free};
  std::array<char, 4096> name{};
};
std::array<note, 32> notes;
static_assert(std::atomic<int>::is_always_lock_free);

// The place, or how many there are when none is free or the name is too long.
std::size_t note_down(const std::filesystem::path& file) {
  const auto& name = file.native();
  for (std::size_t i = 0; i < notes.size() && name.size() < notes[i].name.size(); ++i) {
    int free = note::free;
    if (!notes[i].is.compare_exchange_strong(free, note::changing)) continue;
    *std::copy(name.begin(), name.end(), notes[i].name.begin()) = '\0';
    notes[i].is = note::valid;
    return i;
  }
  return notes.size();
}

void strike_out(std::size_t place) {
  if (place < notes.size()) notes[place].is = note::free;
}

} // namespace

void remove_unfinished_files() noexcept {
  for (const auto& each : notes)
    if (each.is == note::valid) ::unlink(each.name.data());
}

atomic_file::atomic_file(std::filesystem::path file) : file_(final_place(file)) {
  do {
    temporary_ = temporary_name(file_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR)); // EEXIST: left by a killed process of the same id
  if (descriptor_ < 0) fail(file_, "cannot write", errno);
  noted_ = note_down(temporary_);
}

atomic_file::~atomic_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  strike_out(noted_);
}

void atomic_file::write(const void* bytes, std::size_t size) {
  check(descriptor_ >= 0, "an atomic_file is written before its commit");
  constexpr std::size_t most_at_once = std::size_t{1} << 30;
  const auto* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t done = ::write(descriptor_, next, std::min(size, most_at_once));
    if (done < 0) {
      if (errno == EINTR) continue;
      const int reason = errno;
      ::close(std::exchange(descriptor_, -1)); // so that nobody can commit the half
      fail(file_, "cannot write", reason);
    }
    next += done;
    size -= static_cast<std::size_t>(done);
  }
}

void atomic_file::commit() {
  check(descriptor_ >= 0, "an atomic_file is committed once");
  if (::fsync(descriptor_) != 0) fail(file_, "cannot write", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(file_, "cannot write", errno);
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail(file_, "cannot rename the finished file", errno);
  strike_out(noted_);
  temporary_.clear();
  sync_folder(file_);
}

} // namespace penstock
