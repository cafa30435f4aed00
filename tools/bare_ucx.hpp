// The least that moves active messages between two processes over UCX, in wake-up mode: what ours is measured against.
#pragma once

#include "kernels/memory_pool.hpp"
#include "transport/ucx/worker.hpp"

#include <chrono>
#include <vector>

/// One side of a pair. It has one thread, no header of its own, no matching, and receives into buffers that stand
/// ready; UCX's settings are ours. Waits throw penstock::error after ten seconds without a message.
class bare_ucx {
public:
  explicit bare_ucx(penstock::transport::ucx_kind kind);
  std::string address() const { return worker_.address(); }
  void connect(const std::string& other);

  /// Messages of `bytes` there and back, one at a time; the median one-way time in seconds, on both sides.
  double ping_pong(std::size_t bytes, int rounds, bool is_first);
  /// `count` messages of `bytes` one way with `in_flight` of them under way, then an answer: seconds a message, at the
  /// sender.
  double stream(std::size_t bytes, int count, int in_flight, bool is_sender);

private:
  static ucs_status_t on_message(void* self, const void*, std::size_t, void* data, std::size_t bytes,
                                 const ucp_am_recv_param_t* how);
  void prepare(std::size_t bytes, int buffers);
  void post(int slot);
  template <typename Condition>
  void wait_until(Condition is_met);

  penstock::transport::ucx_worker worker_;
  penstock::memory_pool pool_;
  ucp_ep_h connection_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<penstock::buffer> outgoing_;
  std::vector<penstock::buffer> incoming_;
  int received_ = 0;
  int begun_ = 0;
  int sending_ = 0;
};
