// Reads what tells hosts apart.
#include "transport/control/this_member.hpp"

#include <array>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::transport {

member this_member() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) name = {"unknown host"};
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  const bool known = !boot.empty() && ::stat("/proc/self/ns/net", &network) == 0;
  return {.host = name.data(),
          // Without both, only this process is sure to share anything with itself.
          .host_identity = known ? boot + "/" + std::to_string(network.st_ino)
                                 : std::string(name.data()) + "/" + std::to_string(::getpid()),
          .process = ::getpid()};
}

} // namespace penstock::transport
