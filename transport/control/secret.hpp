// The job's secret: what ranks prove to know before anything they say is heard.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace penstock::transport {

/// 32 bytes derived (HKDF-SHA-256) from what the user gave; the text itself is not kept.
struct job_secret {
  std::array<std::byte, 32> key{};
  /// A value for one purpose, the same on all ranks (HKDF-SHA-256 with the purpose as info): the data plane's token.
  std::array<std::byte, 16> token(std::string_view purpose) const;
};

/// From PENSTOCK_SECRET or the file that PENSTOCK_SECRET_FILE names. Throws usage_error when neither is set, both are,
/// the file cannot be read, others may read it, or the text has fewer than 16 characters. `who` needs it, and is named
/// where neither is set.
job_secret read_secret_for(std::string_view who);
job_secret read_secret(); ///< for a job of several processes
/// The text of a secret's file without blanks around it, for who hands it on. Throws usage_error, as above, that begins
/// with `option`.
std::string read_secret_text(const std::string& option, const std::string& file);
job_secret secret_from_text(std::string_view text);
/// 32 random bytes as hexadecimal text, for a launcher to hand to its ranks.
std::string make_secret_text();

} // namespace penstock::transport
