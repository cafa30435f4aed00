// Lists of hosts, and ranks put on them in order.
#include "tools/launch/placement.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "transport/launch/host.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <unistd.h>

namespace penstock::tools::launcher {

namespace {

constexpr int most_slots = 4096;

[[noreturn]] void refuse(const std::string& found) {
  throw usage_error("--hosts: found " + in_quotes(found) + ", wanted host[:slots],…, slots from 1 to " +
                    std::to_string(most_slots));
}

// Nothing that ssh could take for an option or a shell for more than a word.
bool is_host(const std::string& text) {
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
           c == '_';
  });
}

host_slots parse_host(const std::string& text) {
  host_slots result;
  const auto colon = text.find(':');
  result.host = text.substr(0, colon);
  if (!is_host(result.host)) refuse(text);
  if (colon == std::string::npos) return result;
  const char* end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data() + colon + 1, end, result.slots);
  if (fault != std::errc{} || rest != end || result.slots < 1 || result.slots > most_slots) refuse(text);
  return result;
}

} // namespace

std::vector<host_slots> parse_hosts(const std::string& text) {
  std::vector<host_slots> result;
  for (std::size_t at = 0; at <= text.size();) {
    const auto comma = std::min(text.find(',', at), text.size());
    result.push_back(parse_host(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return result;
}

bool is_this_machine(const std::string& host) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return transport::is_loopback_name(host);
  const std::string own = name.data();
  return transport::is_loopback_name(host) || host == own || host == own.substr(0, own.find('.'));
}

std::vector<place> place_ranks(int ranks, const std::vector<host_slots>& hosts) {
  std::vector<place> places;
  std::map<std::string, int> sizes; // by host; this machine's name is ""
  const auto put = [&](const std::string& host) {
    places.push_back({static_cast<int>(places.size()), host, sizes[host]++, 0});
  };
  if (hosts.empty()) {
    for (int r = 0; r < ranks; ++r)
      put("");
  }
  int slots = 0;
  for (const auto& each : hosts) {
    slots += each.slots;
    for (int i = 0; i < each.slots && std::ssize(places) < ranks; ++i)
      put(is_this_machine(each.host) ? "" : each.host);
  }
  if (std::ssize(places) < ranks)
    throw usage_error("--hosts: found " + std::to_string(slots) + " slots, wanted " + std::to_string(ranks) +
                      ", one for each rank (host:slots)");
  for (auto& each : places)
    each.local_size = sizes[each.host];
  const bool has_remote = std::any_of(places.begin(), places.end(), [](const place& p) { return !p.is_here(); });
  if (has_remote && transport::is_loopback_name(hosts.front().host))
    throw usage_error("--hosts: found '" + hosts.front().host +
                      "' first, wanted a name or address under which the other hosts reach rank 0");
  return places;
}

} // namespace penstock::tools::launcher
