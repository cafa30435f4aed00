// The lock is an open file description's (F_OFD_SETLK): the kernel drops it with the process, and it does not mind who
// else in the process opens the file.
#include "actors/checkpoint/checkpoint_lock.hpp"

#include "kernels/check.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::actors {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto renewal = 3s;
constexpr auto watched = 4 * renewal; // who has not renewed it by then is gone
constexpr auto surely_gone = 10min;   // clocks of hosts differ by less
constexpr auto look = 50ms;
constexpr std::size_t most_bytes = 2000;

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string program_name() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return name;
}

// What the file says of its holder: a word a line and its value.
using owner = std::map<std::string, std::string>;

owner this_process() {
  return {{"program", program_name()},
          {"process", std::to_string(::getpid())},
          {"host", host_name()},
          {"boot", boot_id()},
          {"since", fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr)))}};
}

std::string to_text(const owner& o) {
  std::string text;
  for (const auto& [word, value] : o)
    text += word + " " + value + "\n";
  return text;
}

owner owner_from(const std::string& text) {
  owner o;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string plain; // it may be anybody's file
    for (const char c : line.substr(0, 100))
      plain += c >= ' ' && c <= '~' ? c : '?';
    const auto space = plain.find(' ');
    if (space != std::string::npos) o[plain.substr(0, space)] = plain.substr(space + 1);
  }
  return o;
}

std::string name_of(owner o) {
  if (o["process"].empty()) return "another run";
  return fmt::format("{}, process {} on {} since {}", o["program"], o["process"], o["host"], o["since"]);
}

} // namespace

// DIR/lock, open.
class checkpoint_lock::file {
public:
  explicit file(const fs::path& dir) : path_(dir / "lock") {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
    if (descriptor_ < 0) fail(std::strerror(errno));
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      fail("it is not a regular file");
    }
  }
  ~file() { ::close(descriptor_); }
  file(const file&) = delete;
  file& operator=(const file&) = delete;

  /// False when another has it.
  bool lock() {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    while (::fcntl(descriptor_, F_OFD_SETLK, &whole) != 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EACCES) return false;
      is_kernels_ = false; // this file system has no locks
      return true;
    }
    is_kernels_ = true;
    return true;
  }
  bool is_kernels() const { return is_kernels_; }

  /// Is it still what lies under the name?
  bool is_in_place() const {
    struct stat mine {};
    struct stat there {};
    return ::fstat(descriptor_, &mine) == 0 && ::lstat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
  }
  owner read() const {
    std::string text(most_bytes, '\0');
    const auto got = ::pread(descriptor_, text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return owner_from(text);
  }
  void write(const owner& o) {
    const auto text = to_text(o);
    if (::ftruncate(descriptor_, 0) != 0) fail(std::strerror(errno));
    errno = 0;
    if (::pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      fail(std::strerror(errno != 0 ? errno : EIO));
  }
  void touch() const { ::futimens(descriptor_, nullptr); }
  /// When it was last renewed; opened anew, since network file systems remember what they saw.
  timespec renewed() const {
    struct stat status {};
    if (const int again = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); again >= 0) {
      ::fstat(again, &status);
      ::close(again);
    }
    return status.st_mtim;
  }
  void remove() const {
    if (is_in_place()) ::unlink(path_.c_str());
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw error("[checkpoint] cannot lock " + path_.string() + ": " + why);
  }

private:
  fs::path path_;
  int descriptor_ = -1;
  bool is_kernels_ = false;
};

namespace {

// Outermost first.
std::vector<fs::path> make_folders(const fs::path& dir) {
  std::vector<fs::path> made;
  try {
    for (auto part = dir; !part.empty() && !fs::exists(part); part = part.parent_path())
      made.insert(made.begin(), part);
    fs::create_directories(dir);
  } catch (const fs::filesystem_error& e) {
    throw error("[checkpoint] cannot make the folder " + dir.string() + ": " + e.code().message());
  }
  return made;
}

bool is_same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

} // namespace

checkpoint_lock::checkpoint_lock(fs::path dir, std::chrono::milliseconds patience,
                                 const std::function<bool()>& given_up)
    : dir_(std::move(dir)), made_(make_folders(dir_)) {
  acquire(patience, given_up);
  remove_leftovers(dir_);
  renewer_ = std::thread([this] { renew(); });
}

checkpoint_lock::~checkpoint_lock() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  renewer_.join();
  held_->remove();
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder)
    ::rmdir(folder->c_str()); // refuses where something was written
}

void checkpoint_lock::acquire(std::chrono::milliseconds patience, const std::function<bool()>& given_up) {
  const auto begin = std::chrono::steady_clock::now();
  const auto waits = [&](std::chrono::milliseconds most) {
    if (given_up && given_up()) throw error("[checkpoint] waiting for the lock of " + dir_.string() + " was given up");
    if (std::chrono::steady_clock::now() - begin >= most) return false;
    std::this_thread::sleep_for(look);
    return true;
  };
  for (;;) {
    auto candidate = std::make_unique<file>(dir_);
    const auto holder = candidate->read();
    if (!candidate->lock()) {
      if (waits(patience)) continue;
      throw error("[checkpoint] " + dir_.string() + " is in use by " + name_of(holder) +
                  "; wait for it, end it, or name another folder");
    }
    if (!candidate->is_in_place()) continue; // its holder has just removed it
    // The kernel knows of this host's processes alone, unless the file system passes locks on.
    const auto boot = holder.find("boot");
    const bool is_known_gone =
        holder.empty() || (candidate->is_kernels() && boot != holder.end() && boot->second == boot_id());
    const auto renewed = candidate->renewed();
    const bool is_old = std::time(nullptr) - renewed.tv_sec > std::chrono::seconds(surely_gone).count();
    while (!is_known_gone && !is_old && waits(watched))
      if (!is_same(candidate->renewed(), renewed))
        throw error("[checkpoint] " + dir_.string() + " is in use by " + name_of(holder) + ", which goes on renewing " +
                    (dir_ / "lock").string() + "; wait for it, end it, or name another folder");
    try {
      candidate->write(this_process());
    } catch (const error&) { // a full disk
      candidate->remove();
      throw;
    }
    const std::lock_guard lock(mutex_);
    held_ = std::move(candidate);
    return;
  }
}

void checkpoint_lock::renew() {
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, renewal, [this] { return is_over_; }))
    held_->touch();
}

void checkpoint_lock::keep() {
  {
    const std::lock_guard lock(mutex_);
    if (held_->is_in_place()) return;
  }
  try {
    for (auto& folder : make_folders(dir_))
      made_.push_back(std::move(folder));
    acquire({}, {});
  } catch (const error& e) {
    throw error(std::string(e.what()) + " (the lock of this run was removed)");
  }
}

void remove_leftovers(const fs::path& dir) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    const auto name = entry.path().filename().string();
    const bool is_temporary =
        (name.starts_with(".penstock-") && name.ends_with(".tmp")) || name.starts_with(".penstock-probe-");
    if (name.starts_with(".writing-step-") || (is_temporary && entry.is_regular_file(ignored)))
      leftovers.push_back(entry.path());
  }
  for (const auto& path : leftovers)
    fs::remove_all(path, ignored);
}

} // namespace penstock::actors
