// What a rank says first, and what is compared before it belongs to the job.
#pragma once

#include "transport/control/control_plane.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::transport {

using named_facts = std::vector<std::pair<std::string, std::string>>;

/// Names the meaning of every frame. A binary with another one is refused.
inline constexpr std::uint32_t control_protocol = 2;

struct hello {
  std::uint32_t protocol = control_protocol;
  int rank = 0;
  int size = 1;
  int generation = 0; ///< join_options::generation
  member who;
  named_facts facts; ///< as comparable() made them
};

/// What rank 0 tells an admitted rank: its own member entry and settings, which hold for all.
struct admission {
  member rank_0;
  std::chrono::milliseconds silence{};
};

std::string encode(const hello& h);
std::string encode(const admission& a);
std::string encode(const std::vector<member>& members);

/// These throw error when the bytes are not what encode() makes. A hello of another protocol has no more than that.
hello decode_hello(std::string_view bytes);
admission decode_admission(std::string_view bytes);
std::vector<member> decode_members(std::string_view bytes);

/// Facts fit to travel: long values become their beginning and a digest, which differ when the values do.
named_facts comparable(const named_facts& facts);

/// One line that names the first fact which differs, both ranks and both values; nothing when all are equal.
std::optional<std::string> differing_fact(const hello& a, const hello& b);

} // namespace penstock::transport
