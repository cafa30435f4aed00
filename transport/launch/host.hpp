// What a host's name or address means on this machine.
#pragma once

#include <string>
#include <vector>

namespace penstock::transport {

/// localhost, 127.x and ::1 in their spellings: every machine's own, which leads to no other.
bool is_loopback_name(const std::string& host);

/// The same address in one spelling: "::ffff:10.0.0.1" is "10.0.0.1". No numeric address: as it stands.
std::string plain_address(const std::string& address);
/// "10.0.0.1", "fe80::1%eth0": no name.
bool is_numeric_address(const std::string& host);

/// A device of this machine or the loopback has that address; all of 127.x counts.
bool is_own_address(const std::string& address);
/// Whether other machines can reach this one at all: a device that is up has an address that is neither the loopback's
/// nor of the link alone.
bool has_reachable_address();

} // namespace penstock::transport
