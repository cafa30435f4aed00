// Puts the parts of messages together. UCX may bring them in any order.
#include "transport/ucx/reception.hpp"

#include "kernels/check.hpp"
#include "transport/ucx/sending.hpp"

#include <cstring>
#include <set>
#include <utility>

namespace penstock::transport {

struct reception::source {
  reception& owner;
  ucp_worker_h worker;
};

/// A message of which something has come.
struct reception::incoming {
  /// What came before the header, when nobody could say where it goes.
  struct early_piece {
    std::size_t index;
    std::size_t offset;
    payload what;
    buffer copy; // of bytes; a promise of bytes stays with UCX
  };

  struct progress {
    std::size_t bytes;
    std::size_t missing; // of them; those that UCX still writes are not
    bool is_placed = false;
    std::set<std::uint64_t> pieces{}; // where those that have come begin
  };

  reception& owner;
  int peer;
  std::uint64_t number;
  channel to;
  std::vector<std::optional<progress>> parts; // those of which something has come
  std::size_t missing;                        // parts, and the header
  std::size_t receiving = 0;                  // parts that UCX writes at this moment
  bool is_given_up = false;
  std::optional<arrival> content; // once the header has come
  std::vector<early_piece> early;

  /// Makes sure that no more comes of a part than it has, and no piece twice.
  void expect(const wire_header& h) {
    auto& p = parts[h.part];
    check(!p || (h.payload_bytes > 0 && h.payload_bytes <= p->missing), "a part of a message comes once");
    if (!p) p = progress{h.part_bytes, h.part_bytes};
    check(p->bytes == h.part_bytes, "the pieces of a part agree on its size");
    check(h.payload_bytes == h.part_bytes || p->pieces.insert(h.offset).second, "a piece of a part comes once");
  }
  void count(const wire_header& h) {
    progress& p = *parts[h.part];
    p.missing -= h.payload_bytes;
    if (p.missing == 0) --missing;
  }

  ~incoming() { let_go(); }
  void let_go() {
    for (const early_piece& e : early) {
      if (e.what.is_rendezvous) ucp_am_data_release(e.what.worker, e.what.data);
    }
    early.clear();
  }
};

reception::reception(peer_book& book, inbox& to, const wire_rules& rules, listeners tell)
    : book_(book), to_(to), rules_(rules), tell_(std::move(tell)) {}

reception::~reception() = default;

void reception::attach(ucx_worker& from) {
  sources_.push_back(std::make_unique<source>(source{*this, from.handle()}));
  ucp_am_handler_param_t p{};
  p.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                 UCP_AM_HANDLER_PARAM_FIELD_ARG;
  p.id = am_id;
  p.flags = UCP_AM_FLAG_WHOLE_MSG;
  p.cb = &on_message;
  p.arg = sources_.back().get();
  check_ucx(ucp_worker_set_am_recv_handler(from.handle(), &p), "receive active messages");
}

ucs_status_t reception::on_message(void* s, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                                   const ucp_am_recv_param_t* how) {
  const auto& from = *static_cast<source*>(s);
  const bool is_rendezvous = (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return from.owner.handle(from.worker, {static_cast<const char*>(header), header_bytes}, data, bytes, is_rendezvous);
}

ucs_status_t reception::handle(ucp_worker_h worker, std::string_view header, void* data, std::size_t bytes,
                               bool is_rendezvous) {
  const ucs_status_t unwanted = is_rendezvous ? UCS_ERR_CANCELED : UCS_OK;
  const auto h = believed(header, bytes, rules_);
  if (!h) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return unwanted;
  }
  const auto peer = static_cast<int>(h->sender);
  if (book_.loss(peer)) return unwanted;
  try {
    if (h->kind == wire_kind::hello || h->kind == wire_kind::welcome) {
      tell_.on_greeting(peer, h->kind);
      return UCS_OK;
    }
    const payload what{worker, data, bytes, is_rendezvous};
    return arrive(*h, header.substr(sizeof(wire_header)), what) ? UCS_INPROGRESS : UCS_OK;
  } catch (...) {
    tell_.on_failure(peer, text_of(std::current_exception()));
    return unwanted;
  }
}

bool reception::arrive(const wire_header& h, std::string_view user_header, const payload& what) {
  const auto peer = static_cast<int>(h.sender);
  auto& slot = begun_[{peer, h.message}];
  if (!slot)
    slot.reset(new incoming{*this, peer, h.message, channel{h.to}, decltype(incoming::parts)(h.parts),
                            h.parts + std::size_t{1}});
  incoming& m = *slot;
  const bool is_part = h.kind == wire_kind::part && h.parts > 0;
  const bool is_header = h.kind == wire_kind::announce || h.is_announced == 1;
  check(m.parts.size() == h.parts && m.to == channel{h.to}, "the parts of a message agree");
  check(!(is_header && m.content), "the header of a message comes once");
  if (is_part) m.expect(h);

  if (h.kind == wire_kind::announce) {
    check(!what.is_rendezvous, "an announcement comes with its bytes");
    announce(m, {static_cast<const char*>(what.data), what.bytes});
  } else if (is_header) {
    announce(m, std::string(user_header));
  }
  bool is_kept = false;
  if (is_part && m.content) {
    is_kept = take_in(m, h.part, h.offset, what);
  } else if (is_part) {
    m.early.push_back({h.part, h.offset, what, {}});
    is_kept = what.is_rendezvous;
    if (!is_kept) {
      m.early.back().copy = early_.allocate(what.bytes, memory_use::scratch);
      if (what.bytes > 0) std::memcpy(m.early.back().copy.data(), what.data, what.bytes);
      m.early.back().what.data = m.early.back().copy.data();
    }
  }
  if (is_part) m.count(h);
  finish_if_complete(m);
  return is_kept;
}

void reception::announce(incoming& m, std::string user_header) {
  m.content = to_.announce(m.peer, m.to, std::move(user_header), m.parts.size());
  for (; !m.early.empty(); m.early.pop_back())
    take_in(m, m.early.back().index, m.early.back().offset, m.early.back().what);
  --m.missing;
}

bool reception::take_in(incoming& m, std::size_t index, std::size_t offset, const payload& what) {
  incoming::progress& p = *m.parts[index];
  if (!p.is_placed) to_.place(*m.content, index, p.bytes);
  p.is_placed = true;
  const part& target = m.content->content.parts[index];
  if (!what.is_rendezvous) {
    if (what.bytes > 0) std::memcpy(target.data() + offset, what.data, what.bytes);
    return false;
  }
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  how.cb.recv_am = &on_received;
  how.user_data = &m;
  how.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(what.worker, what.data, target.data() + offset, what.bytes, &how);
  if (UCS_PTR_IS_PTR(request))
    ++m.receiving;
  else if (UCS_PTR_IS_ERR(request))
    give_up(m, UCS_PTR_STATUS(request));
  return true;
}

void reception::on_received(void* request, ucs_status_t status, std::size_t, void* what) {
  ucp_request_free(request);
  auto& m = *static_cast<incoming*>(what);
  reception& self = m.owner;
  --m.receiving;
  if (status != UCS_OK) self.give_up(m, status);
  self.finish_if_complete(m);
}

void reception::give_up(incoming& m, ucs_status_t why) {
  if (std::exchange(m.is_given_up, true)) return;
  tell_.on_failure(m.peer, std::string("cannot receive: ") + ucs_status_string(why));
}

void reception::finish_if_complete(incoming& m) {
  if (m.receiving > 0) return;
  if (m.is_given_up) return erase(m);
  if (m.missing > 0) return;
  arrival complete = std::move(*m.content);
  erase(m);
  const int peer = complete.peer;
  book_.received(peer, bytes_of(complete.content));
  try {
    to_.complete(std::move(complete));
  } catch (...) {
    tell_.on_failure(peer, text_of(std::current_exception()));
  }
}

void reception::erase(incoming& m) {
  begun_.erase({m.peer, m.number});
}

void reception::forget(int peer) {
  for (auto it = begun_.lower_bound({peer, 0}); it != begun_.end() && it->first.first == peer;) {
    incoming& m = *it->second;
    m.is_given_up = true;
    m.let_go();
    it = m.receiving == 0 ? begun_.erase(it) : std::next(it); // UCX still writes into the others
  }
}

} // namespace penstock::transport
