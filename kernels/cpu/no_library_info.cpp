// The build without oneDNN computes in plain loops.
#include "kernels/device.hpp"

namespace penstock {

compute_library_info compute_library() {
  return {"reference loops", "compiler"};
}

} // namespace penstock
