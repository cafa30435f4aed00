// A device: where tensors live and streams run. The CPU, or a CUDA GPU where there is one.
#pragma once

#include "kernels/memory_pool.hpp"

#include <memory>
#include <string>
#include <vector>

namespace penstock {

class stream;

enum class device_kind : std::uint8_t { cpu, cuda };

struct device_id {
  device_kind kind = device_kind::cpu;
  int index = 0;
};

std::string to_string(device_id id); ///< "cpu:0", "cuda:1"

struct stream_options {
  std::string name = "stream"; ///< thread name, at most 15 characters are kept
  int threads = 1;             ///< compute threads of this stream; part of what makes results repeatable
  std::vector<int> cores;      ///< cores to pin them to; empty: not pinned
  bool reference = false;      ///< plain loops instead of the device's library
};

/// One memory domain with its own counters. Each stage replica opens its own, so its bytes are counted apart.
class device {
public:
  virtual ~device() = default;
  virtual device_id id() const = 0;
  virtual allocator& memory() = 0;
  /// The same memory where the host may read and write it as it is; null where bytes must be copied
  /// (backend::from_host, backend::to_host).
  virtual memory_pool* host_memory() = 0;
  /// The stream keeps the device alive. Throws usage_error for a thread count below 1 or a core that does not exist.
  virtual std::unique_ptr<stream> create_stream(const stream_options& options) = 0;
  /// A stream whose work takes its turn with that of another stream of the same kind of device, on its thread and cores
  /// and with its options, but in this device's memory. Throws usage_error for a stream of another kind.
  virtual std::unique_ptr<stream> create_stream_beside(stream& other) = 0;
};

/// Throws penstock::error when this build or machine has no such device ("[device] cuda:0 unavailable: ...").
std::shared_ptr<device> open_device(device_id id);

/// Number of usable devices of a kind; 0 where the build or the machine has none.
int device_count(device_kind kind);

/// What decides the bits of a computation besides its threads; runs record it.
struct compute_library_info {
  std::string library;         ///< "oneDNN 2.6.3"
  std::string instruction_set; ///< "avx512_core_bf16"
};
compute_library_info compute_library();

} // namespace penstock
