// What a CPU stream computes with: oneDNN, or the plain loops in a build without it.
#pragma once

#include "kernels/backend.hpp"

#include <exception>
#include <memory>

namespace penstock {

/// Operations by oneDNN. A build without it (PENSTOCK_WITH_CPU=OFF) hands out the reference backend instead. To be made
/// and used on the stream's own thread.
std::unique_ptr<backend> make_cpu_backend(device& owner);

/// Sets how many threads later parallel regions of the calling thread use.
void set_compute_threads(int threads);

/// A fault of oneDNN becomes one of ours that says whether memory was short; others stay what they are.
std::exception_ptr in_our_words(std::exception_ptr fault);

/// Processor time, in seconds, that the thread of a backend made here has spent inside oneDNN; 0 for any other. For
/// benchmarks.
double seconds_in_library(const backend& ops);

} // namespace penstock
