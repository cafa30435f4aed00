// What a rank tells the others so that they can connect: where it runs, and the addresses of its workers.
#pragma once

#include <string>

namespace penstock::transport {

/// Addresses are UCX's and opaque; an empty one says that there is no worker of that kind.
struct ucx_address {
  std::string host; ///< host_identity()
  std::string shared_memory;
  std::string network;
  std::string trouble; ///< why there is no shared memory though it was wanted; else empty
};

/// Ranks with the same one can share memory: boot id, and the namespaces of network and process ids.
/// Throws penstock::error where /proc does not tell.
std::string host_identity();

std::string packed(const ucx_address& a);
/// Throws penstock::error when the bytes are no address of this version; `rank` is for the message.
ucx_address unpacked(const std::string& bytes, int rank);

} // namespace penstock::transport
