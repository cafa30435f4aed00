// A list of tokens, found by id and by text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::apps {

/// Bytes that a token may have; longer ones are taken for damage.
inline constexpr std::size_t longest_token_bytes = 4096;

/// Immutable once made. Ids are the tokens' places.
class vocabulary {
public:
  vocabulary() = default;
  /// Throws error for two equal tokens, naming both places; places count from `first_place` ("line 3 and line 7").
  explicit vocabulary(std::vector<std::string> tokens, std::size_t first_place = 1);
  vocabulary(vocabulary&&) = default;
  vocabulary& operator=(vocabulary&&) = default;
  vocabulary(const vocabulary&) = delete;
  vocabulary& operator=(const vocabulary&) = delete;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  const std::string& operator[](std::int64_t id) const { return tokens_[static_cast<std::size_t>(id)]; }
  std::optional<std::int64_t> find(std::string_view token) const;
  const std::vector<std::string>& tokens() const { return tokens_; }

private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int64_t> ids_; // into tokens_
};

/// The lines of a small text file that a tokenizer is made of, without their ends (LF or CR LF). Throws error in one
/// line that names the file and, where there is one, the line: unreadable, more than 256 MB, empty, a byte order mark,
/// no UTF-8 (with the byte within the line), a NUL, an empty line, one of more bytes than `longest`.
std::vector<std::string> read_token_lines(const std::filesystem::path& file, std::size_t longest = longest_token_bytes);
/// The same of a text that was read.
std::vector<std::string> token_lines(std::string_view text, const std::string& name,
                                     std::size_t longest = longest_token_bytes);

} // namespace penstock::apps
