// A small process that outlives the launcher only to end what a killed launcher would leave behind.
#pragma once

#include "tools/launch/descriptor.hpp"

#include <sys/types.h>

namespace penstock::tools::launcher {

/// A rank dies with the launcher by the kernel's doing, what the rank itself has started does not: the guard then kills
/// the process groups it was told of. It learns of the launcher's end by a pipe that nobody else holds.
class guard {
public:
  guard(); ///< throws penstock::error
  ~guard();
  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;

  void watch(pid_t group);
  void forget(pid_t group); ///< it is gone, and its number may come to belong to others

private:
  void tell(pid_t number);

  descriptor line_;
  pid_t process_ = -1;
};

} // namespace penstock::tools::launcher
