// The limit of address space, and the last words of a process without memory.
#include "kernels/little_memory.hpp"

#include "kernels/check.hpp"
#include "kernels/control_groups.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <limits>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <system_error>
#include <unistd.h>

namespace penstock {

namespace {

// What the compute library and the actors take in small pieces between two questions: a guess. In sweeps of limits from
// 100 MB to 3 GB no run was killed or hung but profiles that were cut off while they still ran.
constexpr std::size_t reserve = std::size_t{48} << 20;

std::optional<std::size_t> limit_of_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// Read without an allocation.
std::size_t address_space_taken() {
  char text[64] = {};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const auto bytes = ::read(file, text, sizeof text - 1);
  ::close(file);
  return bytes > 0 ? std::strtoull(text, nullptr, 10) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

std::size_t bytes_of_a_thread() {
  pthread_attr_t attributes;
  std::size_t stack = std::size_t{8} << 20;
  std::size_t guard = 0;
  if (::pthread_getattr_default_np(&attributes) != 0) return stack;
  ::pthread_attr_getstacksize(&attributes, &stack);
  ::pthread_attr_getguardsize(&attributes, &guard);
  ::pthread_attr_destroy(&attributes);
  return stack + guard;
}

std::terminate_handler otherwise = nullptr;

[[noreturn]] void say_and_leave(const char* what, std::size_t size) {
  const auto ignored = ::write(STDERR_FILENO, what, size);
  static_cast<void>(ignored);
  ::_exit(1);
}

// Only what lack of memory throws where no handler can be: in a library's thread, in a destructor.
void on_terminate() {
  if (const auto fault = std::current_exception()) {
    try {
      std::rethrow_exception(fault);
    } catch (const std::bad_alloc&) {
      constexpr std::string_view line = "penstock: out of memory\n";
      say_and_leave(line.data(), line.size());
    } catch (const std::system_error& e) {
      constexpr std::string_view line = "penstock: cannot start a thread: out of memory, or too many threads\n";
      if (e.code() == std::errc::resource_unavailable_try_again) say_and_leave(line.data(), line.size());
    } catch (...) { // as ever
    }
  }
  if (otherwise != nullptr) otherwise();
  std::abort();
}

} // namespace

std::optional<std::size_t> address_space_left() {
  const auto limit = limit_of_address_space();
  if (!limit) return std::nullopt;
  const auto taken = address_space_taken();
  return *limit - std::min(*limit, taken);
}

bool address_space_holds(std::size_t bytes) {
  const auto left = address_space_left();
  return !left || (*left >= reserve && *left - reserve >= bytes);
}

void require_address_space(std::size_t bytes, std::string_view what) {
  if (address_space_holds(bytes)) return;
  const auto left = address_space_left();
  throw error("out of memory: no address space for " + std::string(what) + ": " +
              std::to_string((bytes + reserve) / 1000) + " KB with a reserve are wanted, " +
              std::to_string(left.value_or(0) / 1000) + " KB are left of the limit (ulimit -v)");
}

void require_threads(int threads, std::string_view what) {
  if (limit_of_address_space()) require_address_space(static_cast<std::size_t>(threads) * bytes_of_a_thread(), what);
}

double memory_there_is(const std::filesystem::path& root) {
  struct sysinfo machine {};
  if (::sysinfo(&machine) != 0) return std::numeric_limits<double>::infinity();
  const auto swap = static_cast<double>(machine.totalswap) * machine.mem_unit;
  const auto of_groups = least_of_groups(
      root, "memory", [](const auto& group) { return first_number_in(group / "memory.max"); },
      [](const auto& group) { return first_number_in(group / "memory.limit_in_bytes"); });
  const auto memory = static_cast<double>(machine.totalram) * machine.mem_unit;
  return std::min(memory, of_groups.value_or(memory)) + swap;
}

void prepare_for_little_memory() {
  otherwise = std::set_terminate(on_terminate);
  // Each arena reserves 64 MB of address space, and there may be eight for each core.
  if (limit_of_address_space()) ::mallopt(M_ARENA_MAX, 1);
}

std::string described(const std::exception& fault) {
  if (dynamic_cast<const std::bad_array_new_length*>(&fault) != nullptr)
    return "out of memory: more was asked for than any machine has";
  if (dynamic_cast<const std::bad_alloc*>(&fault) != nullptr) return "out of memory";
  const auto* system = dynamic_cast<const std::system_error*>(&fault);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return std::string("cannot start a thread: ") + system->what() + " (out of memory, or too many threads)";
  return fault.what();
}

} // namespace penstock
