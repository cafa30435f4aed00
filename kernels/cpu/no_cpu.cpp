// Null twin of the oneDNN backend: the plain loops take its place.
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace penstock {

std::unique_ptr<backend> make_cpu_backend(device& owner) {
  return make_reference_backend(owner);
}

void set_compute_threads(int) {}

std::exception_ptr in_our_words(std::exception_ptr fault) {
  return fault;
}

double seconds_in_library(const backend&) {
  return 0;
}

} // namespace penstock
