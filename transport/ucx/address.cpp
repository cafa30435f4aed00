// Addresses as bytes, and the identity of a host.
#include "transport/ucx/address.hpp"

#include "kernels/check.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace penstock::transport {

namespace {

constexpr std::string_view first_bytes = "penstock ucx 2\n";

void append(std::string& to, const std::string& field) {
  const auto size = static_cast<std::uint32_t>(field.size());
  to.append(reinterpret_cast<const char*>(&size), sizeof size).append(field);
}

/// Takes a field off the front; false when it is cut short.
bool take(std::string_view& from, std::string& field) {
  std::uint32_t size = 0;
  if (from.size() < sizeof size) return false;
  std::memcpy(&size, from.data(), sizeof size);
  from.remove_prefix(sizeof size);
  if (from.size() < size) return false;
  field = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

std::string name_of_namespace(const char* which) {
  std::error_code failed;
  const auto name = std::filesystem::read_symlink(std::string("/proc/self/ns/") + which, failed);
  if (failed) throw error(std::string("[ucx] cannot read /proc/self/ns/") + which + ": " + failed.message());
  return name.string();
}

} // namespace

std::string host_identity() {
  std::string boot_id;
  if (!std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id))
    throw error("[ucx] cannot read /proc/sys/kernel/random/boot_id, which tells hosts apart");
  return boot_id + " " + name_of_namespace("net") + " " + name_of_namespace("pid");
}

std::string packed(const ucx_address& a) {
  std::string bytes(first_bytes);
  append(bytes, a.host);
  append(bytes, a.shared_memory);
  append(bytes, a.network);
  append(bytes, a.trouble);
  return bytes;
}

ucx_address unpacked(const std::string& bytes, int rank) {
  std::string_view rest = bytes;
  ucx_address a;
  if (!rest.starts_with(first_bytes))
    throw error("[ucx] what rank " + std::to_string(rank) + " sent is no UCX address of this version");
  rest.remove_prefix(first_bytes.size());
  if (!take(rest, a.host) || !take(rest, a.shared_memory) || !take(rest, a.network) || !take(rest, a.trouble) ||
      !rest.empty())
    throw error("[ucx] the UCX address of rank " + std::to_string(rank) + " is cut short or too long");
  return a;
}

} // namespace penstock::transport
