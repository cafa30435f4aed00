// Merges of symbol pairs by rank: the heart of every byte pair encoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace penstock::apps {

/// When the merges of one rank are done: all of a word at once, left to right, before a pair is looked at that they
/// made (subword-nmt); or one at a time, each making new pairs at once (Hugging Face's tokenizers). They differ only
/// where a merge is listed before one that makes its halves.
enum class merge_order : std::uint8_t { rounds, single };

/// Symbols are strings with an id. Immutable once made.
class merge_table {
public:
  /// Merges in the order of their rank; of one that is listed twice the first counts.
  explicit merge_table(const std::vector<std::pair<std::string, std::string>>& merges);

  /// A piece of a word: bytes of it.
  struct piece {
    std::size_t begin, size;
  };
  /// The id of a symbol, or `no_symbol`, which merges with nothing.
  std::int32_t find(std::string_view symbol) const;
  /// Merges neighbours until no pair is in the table. `symbols[i]` is the id of `pieces[i]`. In O(n log n).
  void merge(std::vector<std::int32_t>& symbols, std::vector<piece>& pieces, merge_order order) const;

  std::size_t size() const { return merges_.size(); }
  static constexpr std::int32_t no_symbol = -1;

private:
  struct merged {
    std::uint32_t rank;
    std::int32_t symbol;
  };
  const merged* pair_of(std::int32_t left, std::int32_t right) const;
  std::int32_t intern(const std::string& symbol);
  void merge_short(std::vector<std::int32_t>& symbols, std::vector<piece>& pieces, merge_order order) const;
  void merge_long(std::vector<std::int32_t>& symbols, std::vector<piece>& pieces, merge_order order) const;

  std::unordered_map<std::string, std::int32_t> symbols_;
  std::unordered_map<std::uint64_t, merged> merges_;
};

} // namespace penstock::apps
