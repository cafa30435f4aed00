// Asks the file system that holds shared memory.
#include "transport/ucx/shared_memory.hpp"

#include <cmath>
#include <cstdlib>
#include <sys/statvfs.h>

namespace penstock::transport {

namespace {

constexpr const char* folder = "/dev/shm";

std::string megabytes(std::uint64_t bytes) {
  return std::to_string(static_cast<std::uint64_t>(std::ceil(static_cast<double>(bytes) / (1 << 20)))) + " MB";
}

} // namespace

std::string shared_memory_trouble(int ranks, const std::string& reason) {
  struct statvfs found {};
  if (::statvfs(folder, &found) != 0) return std::string(folder) + " is not there (" + reason + ")";
  return shared_memory_trouble(ranks, reason, found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail);
}

std::string shared_memory_trouble(int ranks, const std::string& reason, std::uint64_t bytes, std::uint64_t free_bytes) {
  const auto needed = static_cast<std::uint64_t>(ranks) * shared_memory_bytes_of_rank;
  if (free_bytes >= needed) return reason;
  return std::string(folder) + " has " + megabytes(bytes) + ", of which " + megabytes(free_bytes) +
         " were left; this host's " + std::to_string(ranks) + " ranks need " + megabytes(needed) +
         " (docker run --shm-size, or a larger tmpfs there)";
}

} // namespace penstock::transport
