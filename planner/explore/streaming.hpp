// The model of a device that computes with multipliers and streams activations, as an FPGA does: times from operation
// counts, and what weights and activations cost that do not fit on the chip.
#pragma once

#include "planner/cluster/cluster.hpp"
#include "planner/machine.hpp"
#include "planner/profile/profile.hpp"

#include <cstdint>
#include <vector>

namespace penstock::planner {

bool has_streaming_devices(const cluster& c);

/// The cluster with a profile of its own for each streaming type. A layer's forward takes forward_flops x samples /
/// (2 x multipliers x clock x efficiency) seconds (one multiply-add a multiplier a cycle), its backward twice that;
/// updates and accumulation ride along. Bytes are the profile's. Other types stay as they are. Throws
/// std::invalid_argument if there are streaming types and the profile counts no operations.
cluster with_streaming_profiles(const cluster& c, const profile& p);

/// Least seconds of one micro-batch on a streaming device, whatever its multipliers could do.
struct streaming_floor {
  bool on_chip = true; ///< weights, gradients and all kept activations fit: no traffic to the device's memory
  double forward_seconds = 0;
  double backward_seconds = 0;
};

/// On chip where 2 w + K x kept <= on_chip_bytes (BaPipe, arXiv 2012.12544, reconstructed). Else everything streams
/// through the memory: a forward reads w and writes what is kept, a backward reads both and writes w of gradients.
streaming_floor floor_of(const streaming_device& d, double weight_bytes, double kept_bytes, std::int64_t in_flight);

/// Makes the stages of a machine on streaming devices behave as such (BaPipe's 1F1B-AS). `in_flight` are the K_s. A
/// forward takes the longest of its computation, its memory traffic and the sending of its output, which it overlaps
/// (bandwidth a / F, as the bursts ask for); a backward likewise. What passes between two streaming stages leaves the
/// links then, latency aside: returns those bytes, of one minibatch, both directions.
double stream_through(machine& m, const cluster& c, const std::vector<std::int64_t>& in_flight, int microbatches);

/// BaPipe's FBP-AS: forward and backward at once on each device, its multipliers split F : B, so that each takes F + B.
struct fbp_estimate {
  double seconds = 0;                   ///< of a minibatch
  std::vector<double> busy;             ///< per stage
  std::vector<std::int64_t> in_flight;  ///< 2 (N - i + 1), i from 1, at most M
  std::vector<simulated_memory> memory; ///< per stage
  double bytes_sent = 0;                ///< of a minibatch
  int slowest_stage = 0;
};

/// Of a machine as `stream_through` takes it, unreplicated. Exact for whole micro-batches handed from stage to stage:
/// M equal jobs through 2 N machines in a row, 2 x sum (F + B) + (M - 1) x max (F + B), (M + 2 N - 1) (F + B) where
/// stages are balanced; a link slower than a / (F + B) each way, or memory traffic, takes the place of F + B.
fbp_estimate estimate_fbp(const machine& m, const cluster& c, int microbatches);

} // namespace penstock::planner
