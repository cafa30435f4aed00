// Numbers, ports and hosts out of text that anybody may have written.
#include "transport/launch/values.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <charconv>

namespace penstock::transport {

namespace {

// Keeps a message to one short line whatever the variable holds.
std::string shown(const std::string& text) {
  std::string result = text.substr(0, 80);
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return text.size() > 80 ? result + "..." : result;
}

bool is_host(const std::string& text) {
  constexpr const char* allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
  return !text.empty() && text.size() <= 255 && text.front() != '-' &&
         text.find_first_not_of(allowed) == std::string::npos;
}

} // namespace

void refuse(const std::string& name, const std::string& found, const std::string& wanted) {
  throw usage_error(name + ": found '" + shown(found) + "', wanted " + wanted);
}

void refuse_half(const std::string& present, const std::string& missing) {
  throw usage_error(missing + ": is not set, wanted a value, since " + present + " is set");
}

std::int64_t whole_number(const std::string& name, const std::string& text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc{} || rest != end || value < least || value > most)
    refuse(name, text, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

int port_number(const std::string& name, const std::string& text) {
  return static_cast<int>(whole_number(name, text, 1, 65535));
}

std::string host_name(const std::string& name, const std::string& text) {
  if (!is_host(text)) refuse(name, text, "the name or address of a host");
  return text;
}

std::pair<std::string, int> host_and_port(const std::string& name, const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) refuse(name, text, "HOST:PORT");
  auto host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)
    refuse(name, text, "[ADDRESS]:PORT for an address with colons");
  return {host_name(name, host), port_number(name, text.substr(colon + 1))};
}

void check_rank(const std::string& rank_name, std::int64_t rank, const std::string& size_name, std::int64_t size) {
  if (rank < size) return;
  refuse(rank_name, std::to_string(rank), "less than " + size_name + ", which is " + std::to_string(size));
}

void set_local(launch& to, const std::string& rank_name, std::int64_t rank, const std::string& size_name,
               std::int64_t size) {
  check_rank(rank_name, rank, size_name, size);
  if (size > to.size)
    refuse(size_name, std::to_string(size), "at most the number of ranks, which is " + std::to_string(to.size));
  if (rank > to.rank) refuse(rank_name, std::to_string(rank), "at most the rank, which is " + std::to_string(to.rank));
  to.local_rank = static_cast<int>(rank);
  to.local_size = static_cast<int>(size);
  to.hosts = size == to.size ? spread::one_host : spread::several_hosts;
}

} // namespace penstock::transport
