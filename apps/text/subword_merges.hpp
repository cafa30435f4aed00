// subword-nmt's byte pair encoding with the vocabulary of PipeDream's and MLPerf's GNMT.
#pragma once

#include "apps/text/tokenizer.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::apps {

/// What a file of merges does to words. Immutable.
class subword_segmenter {
public:
  /// Of the lines of a file by `subword-nmt learn-bpe`, with or without its "#version: 0.2". Throws error: "line 3 ..."
  /// that is no two symbols, a version other than 0.1 and 0.2.
  explicit subword_segmenter(const std::vector<std::string>& lines);
  ~subword_segmenter();
  subword_segmenter(subword_segmenter&&) noexcept;

  /// Calls `token` for each piece of a line as `subword-nmt apply-bpe` prints it, "@@" behind all but a word's last.
  void segment(std::string_view line, const std::function<void(std::string_view)>& token) const;
  std::size_t merges() const;

private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

/// PAD 0, UNK 1, BOS 2, EOS 3, then the lines of the vocabulary file (a token, or a token and its count as `subword-nmt
/// get-vocab` prints them), then "madeupword0000" ... to the next multiple of 8: a whole multiple still gets 8 more.
/// Throws error that names the file.
std::unique_ptr<tokenizer> open_subword_merges(const std::filesystem::path& merges_file,
                                               const std::filesystem::path& vocab_file);

} // namespace penstock::apps
