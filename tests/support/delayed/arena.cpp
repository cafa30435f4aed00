// One range of addresses, of which the second half can be used.
#include "tests/support/delayed/arena.hpp"

#include "kernels/check.hpp"

#include <sys/mman.h>

namespace penstock::testing {

arena::arena() {
  void* all = ::mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) throw error("[device] the delayed device finds no addresses for its memory");
  begin_ = static_cast<std::byte*>(all);
  if (::mprotect(bytes_of(begin_), size, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(all, 2 * size);
    throw error("[device] the delayed device gets no memory");
  }
}

arena::~arena() {
  ::munmap(begin_, 2 * size);
}

} // namespace penstock::testing
