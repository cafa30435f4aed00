// The data plane between GPUs. This build has only its null twin: tensors of the CPU travel over UCX.
#pragma once

#include "transport/endpoint.hpp"

namespace penstock::transport {

/// False where the build or the machine has no NCCL.
bool nccl_available();

/// Connects this rank to all others; `unique_id` is rank 0's, carried by the control plane. Throws penstock::error, one
/// line, where NCCL is not available.
std::unique_ptr<endpoint> connect_nccl(int rank, int size, const std::string& unique_id);

} // namespace penstock::transport
