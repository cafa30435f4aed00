// Stands in where NCCL is absent.
#include "kernels/check.hpp"
#include "transport/nccl/nccl.hpp"

namespace penstock::transport {

bool nccl_available() {
  return false;
}

std::unique_ptr<endpoint> connect_nccl(int, int, const std::string&) {
  throw error("[transport] NCCL is unavailable: this build has no GPU backend");
}

} // namespace penstock::transport
