// Values of launch variables: each is read whole or refused in one line with its name.
#pragma once

#include "transport/launch/launch.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace penstock::transport {

/// More ranks than any job of ours has; a larger number is garbage.
inline constexpr std::int64_t most_ranks = 65536;

/// Throws usage_error: "NAME: found 'VALUE', wanted WANTED".
[[noreturn]] void refuse(const std::string& name, const std::string& found, const std::string& wanted);
/// Throws usage_error: one of two variables that belong together is missing.
[[noreturn]] void refuse_half(const std::string& present, const std::string& missing);

/// The whole text must be a decimal number in the range, bounds included.
std::int64_t whole_number(const std::string& name, const std::string& text, std::int64_t least, std::int64_t most);
int port_number(const std::string& name, const std::string& text);
/// A host's name or address as it stands, without brackets.
std::string host_name(const std::string& name, const std::string& text);
/// "HOST:PORT" or "[ADDRESS]:PORT".
std::pair<std::string, int> host_and_port(const std::string& name, const std::string& text);

void check_rank(const std::string& rank_name, std::int64_t rank, const std::string& size_name, std::int64_t size);
/// This process among those of its host; must fit into the rank and size that `to` has already.
void set_local(launch& to, const std::string& rank_name, std::int64_t rank, const std::string& size_name,
               std::int64_t size);

} // namespace penstock::transport
