// A message with k parts is k active messages, each carrying whose part it is; more where parts go in pieces.
#include "transport/ucx/sending.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace penstock::transport {

namespace {

/// Pieces for one peer that UCX may hold at a time: one on its way, one to follow it. What it cannot send yet it looks
/// through at every progress.
constexpr std::size_t pieces_ahead = 2;

} // namespace

/// A message under way. UCX reads its headers and parts until the last of its active messages is finished.
struct sending::posting {
  sending& owner;
  int peer;
  message content;
  endpoint::completion sent;
  std::uint64_t bytes = 0;
  struct piece {
    const std::byte* header;
    std::size_t header_bytes;
    payload bytes;
    unsigned flags;
  };
  std::vector<std::byte> headers;
  std::vector<piece> pieces;  // an active message each
  std::size_t next = 0;       // of them
  std::size_t unfinished = 1; // active messages with UCX; and whoever still has some to send
  std::optional<std::string> failure;
  bool is_greeting = true; // not in the book
  bool is_settled = false;
};

/// Shared by the requests of one flush; the last one calls back.
struct sending::flush_group {
  explicit flush_group(flushed d) : done(std::move(d)) {}
  flush_group(const flush_group&) = delete;
  flush_group& operator=(const flush_group&) = delete;
  ~flush_group() { done(std::move(failure)); }
  flushed done;
  std::optional<std::string> failure;
};

struct sending::flush_request {
  sending& owner;
  int peer;
  std::shared_ptr<flush_group> group;
};

sending::sending(peer_book& book, const wire_rules& rules, failure on_failure)
    : book_(book), rules_(rules), on_failure_(std::move(on_failure)), lines_(static_cast<std::size_t>(book.size())) {}

sending::~sending() = default;

void sending::connect(int peer, ucp_ep_h connection, std::size_t max_header, std::size_t piece_bytes) {
  line& l = lines_.at(static_cast<std::size_t>(peer));
  l.connection = connection;
  l.max_header = max_header;
  l.piece_bytes = piece_bytes;
}

sending::posting& sending::add(int peer) {
  auto owned = std::make_unique<posting>(posting{*this, peer, {}, {}});
  posting& p = *owned;
  under_way_.emplace(&p, std::move(owned));
  return p;
}

void sending::greet(int peer, wire_kind kind) {
  if (book_.loss(peer)) return;
  posting& p = add(peer);
  wire_header h{rules_.token, kind, static_cast<std::uint32_t>(rules_.rank)};
  p.headers.resize(sizeof h);
  std::memcpy(p.headers.data(), &h, sizeof h);
  send_am(p, p.headers.data(), sizeof h, {}, 0);
  finish_one(p, UCS_OK);
}

void sending::start(int peer, channel to, message m, endpoint::completion sent) {
  posting& p = add(peer);
  p.content = std::move(m);
  p.sent = std::move(sent);
  p.bytes = bytes_of(p.content);
  p.is_greeting = false;
  p.failure = book_.loss(peer);
  if (p.failure) return finish_one(p, UCS_OK);
  cut(p, to);
  line& by = lines_[static_cast<std::size_t>(peer)];
  if (by.piece_bytes == 0) return send_all(p);
  by.waiting.push_back(&p);
}

void sending::send_all(posting& p) {
  for (const auto& piece : p.pieces)
    send_am(p, piece.header, piece.header_bytes, piece.bytes, piece.flags);
  finish_one(p, UCS_OK);
}

bool sending::send_next_pieces() {
  bool any = false;
  for (line& to : lines_) {
    if (to.waiting.empty() || to.with_ucx >= pieces_ahead) continue;
    any = true;
    posting& p = *to.waiting.front();
    const auto piece = p.pieces[p.next++];
    const bool is_last = p.next == p.pieces.size();
    if (is_last) to.waiting.pop_front();
    send_am(p, piece.header, piece.header_bytes, piece.bytes, piece.flags);
    if (is_last) finish_one(p, UCS_OK);
  }
  return any;
}

/// Into active messages.
void sending::cut(posting& p, channel to) {
  const std::string& own = p.content.header;
  const std::vector<part>& parts = p.content.parts;
  const line& by = lines_[static_cast<std::size_t>(p.peer)];
  const bool header_fits = sizeof(wire_header) + own.size() <= by.max_header;
  wire_header h{rules_.token, wire_kind::part, static_cast<std::uint32_t>(rules_.rank), static_cast<std::uint64_t>(to)};
  h.message = next_message_++;
  h.parts = static_cast<std::uint32_t>(parts.size());

  // Without parts a header travels by itself, either way.
  const std::size_t carriers = parts.empty() && header_fits ? 1 : parts.size();
  std::size_t messages = header_fits ? 0 : 1;
  for (std::size_t i = 0; i < carriers; ++i)
    messages += parts.empty() ? 1 : by.pieces_of(parts[i].size);
  p.headers.resize(messages * sizeof h + own.size());
  std::byte* next = p.headers.data();
  const auto place = [&next](const void* bytes, std::size_t size) {
    if (size > 0) std::memcpy(next, bytes, size);
    return std::exchange(next, next + size);
  };
  if (!header_fits) {
    wire_header announcement = h;
    announcement.kind = wire_kind::announce;
    announcement.payload_bytes = own.size();
    const std::byte* header = place(&announcement, sizeof h);
    const std::byte* text = place(own.data(), own.size());
    p.pieces.push_back({header, sizeof h, {text, own.size()}, UCP_AM_SEND_FLAG_EAGER});
  }
  for (std::size_t i = 0; i < carriers; ++i) {
    const payload whole = parts.empty() ? payload{} : payload{parts[i].data(), parts[i].size};
    const std::size_t most = by.piece_bytes == 0 ? whole.size() : by.piece_bytes;
    h.part = static_cast<std::uint32_t>(i);
    h.part_bytes = whole.size();
    h.offset = 0;
    do {
      const payload bytes = whole.subspan(h.offset, std::min(most, whole.size() - h.offset));
      h.is_announced = header_fits && i == 0 && h.offset == 0 ? 1 : 0;
      h.user_header_bytes = h.is_announced == 1 ? static_cast<std::uint32_t>(own.size()) : 0;
      h.payload_bytes = bytes.size();
      const std::byte* header = place(&h, sizeof h);
      if (h.is_announced == 1) place(own.data(), own.size());
      p.pieces.push_back({header, sizeof h + h.user_header_bytes, bytes,
                          by.piece_bytes == 0 ? 0U : static_cast<unsigned>(UCP_AM_SEND_FLAG_EAGER)});
      h.offset += bytes.size();
    } while (h.offset < whole.size());
  }
}

void sending::send_am(posting& p, const std::byte* header, std::size_t header_bytes, payload bytes, unsigned flags) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                     UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  how.cb.send = &on_sent;
  how.user_data = &p;
  how.flags = flags;
  how.memory_type = UCS_MEMORY_TYPE_HOST;
  ++p.unfinished;
  ++lines_[static_cast<std::size_t>(p.peer)].with_ucx;
  const ucs_status_ptr_t request = ucp_am_send_nbx(lines_[static_cast<std::size_t>(p.peer)].connection, am_id, header,
                                                   header_bytes, bytes.data(), bytes.size(), &how);
  if (!UCS_PTR_IS_PTR(request)) sent_one(p, UCS_PTR_RAW_STATUS(request));
}

void sending::on_sent(void* request, ucs_status_t status, void* p) {
  ucp_request_free(request);
  auto& posted = *static_cast<posting*>(p);
  posted.owner.sent_one(posted, status);
}

void sending::sent_one(posting& p, ucs_status_t status) {
  --lines_[static_cast<std::size_t>(p.peer)].with_ucx;
  finish_one(p, status);
}

void sending::finish_one(posting& p, ucs_status_t status) {
  if (status != UCS_OK && !p.failure) {
    p.failure = std::string("its connection broke: ") + ucs_status_string(status);
    on_failure_(p.peer, *p.failure);
  }
  if (--p.unfinished > 0) return;
  p.content.parts.clear(); // whoever is told now may find the buffers free
  settle(p);
  under_way_.erase(&p);
}

void sending::settle(posting& p) {
  if (std::exchange(p.is_settled, true) || p.is_greeting) return;
  std::exception_ptr why;
  if (p.failure)
    why = std::make_exception_ptr(error("[ucx] message to rank " + std::to_string(p.peer) + " dropped: " + *p.failure));
  try {
    if (const auto sent = std::exchange(p.sent, nullptr)) sent(why);
  } catch (...) {
    on_failure_(p.peer, text_of(std::current_exception()));
  }
  if (why)
    book_.dropped(p.peer, text_of(why));
  else
    book_.sent(p.peer, p.bytes);
}

void sending::drop(int peer, const std::string& why) {
  for (auto& [p, owned] : under_way_) {
    if (p->peer != peer) continue;
    if (!p->failure) p->failure = why;
    settle(*p);
  }
  for (posting* p : std::exchange(lines_[static_cast<std::size_t>(peer)].waiting, {}))
    finish_one(*p, UCS_OK);
}

void sending::flush(flushed done) {
  const auto group = std::make_shared<flush_group>(std::move(done));
  for (int peer = 0; peer < book_.size(); ++peer) {
    const line& to = lines_[static_cast<std::size_t>(peer)];
    if (to.connection == nullptr || book_.loss(peer)) continue;
    auto owned = std::make_unique<flush_request>(flush_request{*this, peer, group});
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    how.cb.send = &on_flushed;
    how.user_data = owned.get();
    const ucs_status_ptr_t request = ucp_ep_flush_nbx(to.connection, &how);
    if (UCS_PTR_IS_PTR(request))
      flushing_.emplace(owned.get(), std::move(owned));
    else if (UCS_PTR_IS_ERR(request))
      group->failure = "[ucx] rank " + std::to_string(peer) + " is lost: " + ucs_status_string(UCS_PTR_STATUS(request));
  }
}

void sending::on_flushed(void* request, ucs_status_t status, void* f) {
  ucp_request_free(request);
  auto& done = *static_cast<flush_request*>(f);
  if (status != UCS_OK)
    done.group->failure = "[ucx] rank " + std::to_string(done.peer) + " is lost: " + ucs_status_string(status);
  done.owner.flushing_.erase(&done);
}

} // namespace penstock::transport
