// The first words between a rank and rank 0.
#include "transport/control/hello.hpp"

#include "transport/control/wire.hpp"
#include "transport/control/words.hpp"

#include <algorithm>
#include <cstdio>

namespace penstock::transport {

namespace {

constexpr std::size_t longest_fact = 200; // so that some dozens fit into a hello
constexpr std::size_t shown_value = 80;

void put_member(std::string& onto, const member& m) {
  put_text(onto, m.host);
  put_text(onto, m.host_identity);
  put(onto, m.process);
}

member take_member(wire_reader& in) {
  member m;
  m.host = one_line(in.text(), 255);
  m.host_identity = in.text();
  m.process = in.number<std::int64_t>();
  return m;
}

void expect_end(const wire_reader& in) {
  if (in.left() != 0) throw error("it is " + std::to_string(in.left()) + " bytes too long");
}

// FNV-1a. It tells values apart that differ by accident; it is no protection.
std::string digest_of(std::string_view text) {
  std::uint64_t state = 0xcbf29ce484222325ULL;
  for (const unsigned char c : text)
    state = (state ^ c) * 0x100000001b3ULL;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(state));
  return digits;
}

// A value's part around the first place where it differs from the other's.
std::string shown(const std::string* value, const std::string* other) {
  if (value == nullptr) return "nothing";
  std::size_t from = 0;
  if (value->size() > shown_value && other != nullptr) {
    from = static_cast<std::size_t>(std::ranges::mismatch(*value, *other).in1 - value->begin());
    from = from < shown_value / 2 ? 0 : from - shown_value / 4;
  }
  return "'" + std::string(from > 0 ? "..." : "") + one_line(std::string_view(*value).substr(from), shown_value) + "'";
}

} // namespace

std::string encode(const hello& h) {
  std::string bytes;
  put(bytes, h.protocol);
  put(bytes, static_cast<std::int32_t>(h.rank));
  put(bytes, static_cast<std::int32_t>(h.size));
  put(bytes, static_cast<std::int32_t>(h.generation));
  put_member(bytes, h.who);
  put(bytes, static_cast<std::uint32_t>(h.facts.size()));
  for (const auto& [name, value] : h.facts) {
    put_text(bytes, name);
    put_text(bytes, value);
  }
  return bytes;
}

hello decode_hello(std::string_view bytes) {
  wire_reader in(bytes);
  hello h;
  h.protocol = in.number<std::uint32_t>();
  if (h.protocol != control_protocol) return h;
  h.rank = in.number<std::int32_t>();
  h.size = in.number<std::int32_t>();
  h.generation = in.number<std::int32_t>();
  h.who = take_member(in);
  for (auto left = in.number<std::uint32_t>(); left > 0; --left) {
    auto name = in.text();
    h.facts.emplace_back(std::move(name), in.text());
  }
  expect_end(in);
  return h;
}

std::string encode(const admission& a) {
  std::string bytes;
  put_member(bytes, a.rank_0);
  put(bytes, static_cast<std::int64_t>(a.silence.count()));
  return bytes;
}

admission decode_admission(std::string_view bytes) {
  wire_reader in(bytes);
  admission a;
  a.rank_0 = take_member(in);
  a.silence = std::chrono::milliseconds(in.number<std::int64_t>());
  expect_end(in);
  if (a.silence <= 0ms) throw error("it names a silence of " + std::to_string(a.silence.count()) + " ms");
  return a;
}

std::string encode(const std::vector<member>& members) {
  std::string bytes;
  put(bytes, static_cast<std::uint32_t>(members.size()));
  for (const auto& m : members)
    put_member(bytes, m);
  return bytes;
}

std::vector<member> decode_members(std::string_view bytes) {
  wire_reader in(bytes);
  std::vector<member> members;
  for (auto left = in.number<std::uint32_t>(); left > 0; --left)
    members.push_back(take_member(in));
  expect_end(in);
  return members;
}

named_facts comparable(const named_facts& facts) {
  named_facts fit;
  for (const auto& [name, value] : facts)
    fit.emplace_back(name, value.size() <= longest_fact
                               ? value
                               : one_line(value, longest_fact - 50) + " (digest " + digest_of(value) + ")");
  return fit;
}

std::optional<std::string> differing_fact(const hello& a, const hello& b) {
  const auto line = [&](const std::string& name, const std::string& x, const std::string& y) {
    return "'" + one_line(name, shown_value) + "' differs: rank " + std::to_string(a.rank) + " has " + x + ", rank " +
           std::to_string(b.rank) + " has " + y;
  };
  if (a.size != b.size) return line("number of ranks", std::to_string(a.size), std::to_string(b.size));
  for (std::size_t i = 0; i < std::max(a.facts.size(), b.facts.size()); ++i) {
    const auto* x = i < a.facts.size() ? &a.facts[i] : nullptr;
    const auto* y = i < b.facts.size() ? &b.facts[i] : nullptr;
    if (x != nullptr && y != nullptr && *x == *y) continue;
    const auto& name = x != nullptr ? x->first : y->first;
    // Lists of different facts come from different binaries: the value under another name is not this one's.
    if (x != nullptr && y != nullptr && x->first != y->first) y = nullptr;
    const auto* of_x = x != nullptr ? &x->second : nullptr;
    const auto* of_y = y != nullptr ? &y->second : nullptr;
    return line(name, shown(of_x, of_y), shown(of_y, of_x));
  }
  return {};
}

} // namespace penstock::transport
