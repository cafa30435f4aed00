// Headers of shares as bytes, and the complaint about a wrong one.
#include "transport/share_header.hpp"

#include <cstring>

namespace penstock::transport {

message packed(const share_header& h, std::vector<part> pieces) {
  message m{std::string(sizeof h, '\0'), std::move(pieces)};
  std::memcpy(m.header.data(), &h, sizeof h);
  return m;
}

share_header unpacked(int peer, std::string_view header) {
  share_header h;
  if (header.size() != sizeof h)
    throw error("[transport.all_reduce] rank " + std::to_string(peer) + " sends a header of " +
                std::to_string(header.size()) + " bytes, wanted " + std::to_string(sizeof h));
  std::memcpy(&h, header.data(), sizeof h);
  return h;
}

error stray(int peer, const char* what, const share_header& h) {
  return error("[transport.all_reduce] rank " + std::to_string(peer) + " sends " + what + " " + std::to_string(h.from) +
               " of slice " + std::to_string(h.slice) + " of bucket " + std::to_string(h.key) + " (" +
               std::to_string(h.bucket_bytes) + " bytes), which nobody expects");
}

} // namespace penstock::transport
