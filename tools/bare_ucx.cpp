// Ping-pong and streams straight on UCX.
#include "tools/bare_ucx.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <cstring>
#include <poll.h>

using penstock::transport::check_ucx;
using penstock::transport::ucx_kind;
using steady = std::chrono::steady_clock;

namespace {
constexpr unsigned am_id = 1;

double seconds_since(steady::time_point start) {
  return std::chrono::duration<double>(steady::now() - start).count();
}
} // namespace

bare_ucx::bare_ucx(ucx_kind kind) : worker_(kind, "lo") {
  ucp_am_handler_param_t p{};
  p.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                 UCP_AM_HANDLER_PARAM_FIELD_ARG;
  p.id = am_id;
  p.flags = UCP_AM_FLAG_WHOLE_MSG;
  p.cb = &on_message;
  p.arg = this;
  check_ucx(ucp_worker_set_am_recv_handler(worker_.handle(), &p), "receive active messages");
}

void bare_ucx::connect(const std::string& other) {
  connection_ = worker_.connect(other, "the other process", {[](void*, ucp_ep_h, ucs_status_t) {}, nullptr});
}

ucs_status_t bare_ucx::on_message(void* self, const void*, std::size_t, void* data, std::size_t bytes,
                                  const ucp_am_recv_param_t* how) {
  auto& me = *static_cast<bare_ucx*>(self);
  if (bytes == 0) { // the answer at the end of a stream
    ++me.received_;
    return UCS_OK;
  }
  std::byte* to = me.incoming_[static_cast<std::size_t>(me.begun_++) % me.incoming_.size()].data();
  if ((how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
    std::memcpy(to, data, bytes);
    ++me.received_;
    return UCS_OK;
  }
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.user_data = self;
  p.cb.recv_am = [](void* request, ucs_status_t, std::size_t, void* owner) {
    ucp_request_free(request);
    ++static_cast<bare_ucx*>(owner)->received_;
  };
  if (ucp_am_recv_data_nbx(me.worker_.handle(), data, to, bytes, &p) == nullptr) ++me.received_;
  return UCS_INPROGRESS;
}

void bare_ucx::prepare(std::size_t bytes, int buffers) {
  bytes_ = bytes;
  received_ = begun_ = sending_ = 0;
  outgoing_.clear();
  incoming_.clear();
  for (int i = 0; i < buffers; ++i) {
    outgoing_.push_back(pool_.allocate(bytes, penstock::memory_use::scratch));
    incoming_.push_back(pool_.allocate(bytes, penstock::memory_use::scratch));
    std::memset(outgoing_.back().data(), i, bytes);
    std::memset(incoming_.back().data(), i, bytes);
  }
}

void bare_ucx::post(int slot) {
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.user_data = this;
  p.cb.send = [](void* request, ucs_status_t, void* owner) {
    ucp_request_free(request);
    --static_cast<bare_ucx*>(owner)->sending_;
  };
  // Slot -1 is the answer: an empty message.
  const void* from = slot < 0 ? nullptr : outgoing_[static_cast<std::size_t>(slot)].data();
  ++sending_;
  if (!UCS_PTR_IS_PTR(ucp_am_send_nbx(connection_, am_id, nullptr, 0, from, slot < 0 ? 0 : bytes_, &p))) --sending_;
}

template <typename Condition>
void bare_ucx::wait_until(Condition is_met) {
  while (!is_met()) {
    if (ucp_worker_progress(worker_.handle()) > 0 || !worker_.arm()) continue;
    pollfd events{worker_.event_descriptor(), POLLIN, 0};
    if (::poll(&events, 1, 10'000) == 0) throw penstock::error("[bare ucx] nothing came for ten seconds");
  }
}

double bare_ucx::ping_pong(std::size_t bytes, int rounds, bool is_first) {
  prepare(bytes, 1);
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const auto start = steady::now();
    if (is_first) post(0);
    wait_until([&] { return received_ == i + 1; });
    if (!is_first) post(0);
    wait_until([&] { return sending_ == 0; });
    times.push_back(seconds_since(start) / 2);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds) / 2];
}

double bare_ucx::stream(std::size_t bytes, int count, int in_flight, bool is_sender) {
  prepare(bytes, in_flight);
  const auto start = steady::now();
  if (!is_sender) {
    wait_until([&] { return received_ == count; });
    post(-1);
  }
  for (int i = 0; is_sender && i < count; ++i) {
    wait_until([&] { return sending_ < in_flight; });
    post(i % in_flight);
  }
  wait_until([&] { return sending_ == 0 && (!is_sender || received_ == 1); });
  return seconds_since(start) / count;
}
