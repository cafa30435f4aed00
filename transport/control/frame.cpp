// Frames as bytes: a size, a kind, fixed fields, a name, and the rest is payload.
#include "transport/control/frame.hpp"

#include "kernels/check.hpp"
#include "transport/control/wire.hpp"

#include <algorithm>

namespace penstock::transport {

namespace {

constexpr std::size_t head_bytes = sizeof(std::uint32_t) + sizeof(std::uint8_t); // the body's size, the kind
// Rank, two times, the length of the name.
constexpr std::size_t fixed_bytes = sizeof(std::int32_t) + 2 * sizeof(std::int64_t) + sizeof(std::uint8_t);

constexpr std::uint32_t bit_of(frame_kind kind) {
  return std::uint32_t{1} << static_cast<int>(kind);
}

bool has_name(frame_kind kind) {
  return kind == frame_kind::blob || kind == frame_kind::message || kind == frame_kind::lost;
}

std::size_t body_limit(frame_kind kind) {
  return fixed_bytes + (has_name(kind) ? max_name_bytes : 0) + payload_limit(kind);
}

frame decode(frame_kind kind, std::string_view body) {
  wire_reader in(body);
  frame f;
  f.kind = kind;
  f.rank = in.number<std::int32_t>();
  f.sent_ns = in.number<std::int64_t>();
  f.answered_ns = in.number<std::int64_t>();
  f.name = in.take(in.number<std::uint8_t>());
  if (in.left() > payload_limit(kind))
    throw error("a payload of " + std::to_string(in.left()) + " bytes, at most " + std::to_string(payload_limit(kind)) +
                " may be");
  f.payload = in.take(in.left());
  return f;
}

} // namespace

std::size_t payload_limit(frame_kind kind) {
  switch (kind) {
  case frame_kind::hello:
    return std::size_t{64} << 10;
  case frame_kind::admitted:
    return 1024;
  case frame_kind::welcome:
    return std::size_t{16} << 20; // grows with the ranks
  case frame_kind::blob:
  case frame_kind::message:
    return max_payload_bytes;
  case frame_kind::refused:
  case frame_kind::pulse:
  case frame_kind::failed:
  case frame_kind::lost:
  case frame_kind::suspect:
    return max_text_bytes;
  case frame_kind::leave:
  case frame_kind::all_left:
  case frame_kind::ping:
  case frame_kind::pong:
  case frame_kind::too_early:
    return 0;
  }
  return 0;
}

std::string encode(const frame& f) {
  check(f.name.size() <= max_name_bytes && f.payload.size() <= payload_limit(f.kind), "a control frame is too large");
  std::string bytes;
  const std::size_t body = fixed_bytes + f.name.size() + f.payload.size();
  bytes.reserve(head_bytes + body);
  put(bytes, static_cast<std::uint32_t>(body));
  put(bytes, static_cast<std::uint8_t>(f.kind));
  put(bytes, static_cast<std::int32_t>(f.rank));
  put(bytes, f.sent_ns);
  put(bytes, f.answered_ns);
  put(bytes, static_cast<std::uint8_t>(f.name.size()));
  bytes += f.name;
  bytes += f.payload;
  return bytes;
}

void frame_reader::accept(std::initializer_list<frame_kind> acceptable) {
  acceptable_ = 0;
  for (const auto kind : acceptable)
    acceptable_ |= bit_of(kind);
}

void frame_reader::feed(std::string_view bytes, const std::function<void(frame)>& take) {
  const auto move_onto = [&bytes](std::string& onto, std::size_t whole) {
    const auto n = std::min(bytes.size(), whole - onto.size());
    onto.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    return onto.size() == whole;
  };
  while (!bytes.empty()) {
    if (wanted_ == 0) {
      if (!move_onto(head_, head_bytes)) return;
      wire_reader in(head_);
      const auto size = in.number<std::uint32_t>();
      const auto kind = in.number<std::uint8_t>();
      if (kind == 0 || kind > frame_kinds || (acceptable_ & bit_of(frame_kind{kind})) == 0)
        throw error("a frame of kind " + std::to_string(kind) + ", which has no place here");
      if (size < fixed_bytes || size > body_limit(frame_kind{kind}))
        throw error("a frame of kind " + std::to_string(kind) + " with " + std::to_string(size) + " bytes, wanted " +
                    std::to_string(fixed_bytes) + " to " + std::to_string(body_limit(frame_kind{kind})));
      wanted_ = size;
      body_.reserve(wanted_);
    }
    if (!move_onto(body_, wanted_)) return;
    auto whole = decode(frame_kind{static_cast<std::uint8_t>(head_.back())}, body_);
    head_.clear();
    body_ = {};
    wanted_ = 0;
    take(std::move(whole));
  }
}

} // namespace penstock::transport
