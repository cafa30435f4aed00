// What UCX needs of /dev/shm, and what is there.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::transport {

/// What UCX 1.13 takes for a rank, seen: 512 buffers of 8 KB to receive into, and a queue.
inline constexpr std::uint64_t shared_memory_bytes_of_rank = std::uint64_t{4208} << 10;

/// Why `ranks` ranks of this host get no shared memory: what /dev/shm has, what they need, and what would help;
/// `reason` alone where there is room enough.
std::string shared_memory_trouble(int ranks, const std::string& reason);
/// The same, of a folder with so many bytes in all and free ones.
std::string shared_memory_trouble(int ranks, const std::string& reason, std::uint64_t bytes, std::uint64_t free_bytes);

} // namespace penstock::transport
