// Reads lists of tokens with every complaint in one line.
#include "apps/text/vocabulary.hpp"

#include "apps/text/unicode.hpp"
#include "kernels/check.hpp"
#include "kernels/input_file.hpp"
#include "kernels/text.hpp"

namespace penstock::apps {

using namespace unicode;

namespace {

constexpr std::uint64_t largest_file = 256'000'000;

void check_line(std::string_view line, std::size_t longest) {
  if (line.empty()) throw error("is empty, wanted a token");
  if (line.size() > longest)
    throw error("has " + std::to_string(line.size()) + " bytes, wanted at most " + std::to_string(longest));
  if (line.find('\0') != std::string_view::npos) throw error("has a NUL, wanted text");
  if (line.find('\r') != std::string_view::npos) throw error("has a carriage return within, wanted text");
  require_utf8(line);
}

} // namespace

vocabulary::vocabulary(std::vector<std::string> tokens, std::size_t first_place) : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto [found, is_new] = ids_.emplace(tokens_[i], static_cast<std::int64_t>(i));
    if (!is_new)
      throw error("line " + std::to_string(i + first_place) + ": found " + in_quotes(tokens_[i]) +
                  ", which is already on line " +
                  std::to_string(static_cast<std::size_t>(found->second) + first_place) + "; wanted each token once");
  }
}

std::optional<std::int64_t> vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> token_lines(std::string_view text, const std::string& name, std::size_t longest) {
  if (text.empty()) throw error(name + " is empty, wanted a token a line");
  if (text.starts_with("\xef\xbb\xbf")) throw error(name + " begins with a byte order mark, wanted UTF-8 without one");
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at = end + 1;
    try {
      check_line(line, longest);
    } catch (const error& fault) {
      const std::string what = fault.what();
      throw error(name + ": line " + std::to_string(lines.size() + 1) + (what.starts_with("byte") ? ": " : " ") + what);
    }
    lines.emplace_back(line);
  }
  return lines;
}

std::vector<std::string> read_token_lines(const std::filesystem::path& file, std::size_t longest) {
  return token_lines(read_whole_file(file, largest_file), file.string(), longest);
}

} // namespace penstock::apps
