// The words of captions, by number.
#pragma once

#include "apps/text/vocabulary.hpp"

#include <span>

namespace penstock::apps {

/// A caption of a clip, as a line of a TSV has it: the clip's number, its frames, the text.
struct clip_caption {
  std::int64_t clip = 0;
  std::int64_t frames = 0;
  std::string text;
};

/// Throws error that names the file and the line for what is no such line, and where there is none.
std::vector<clip_caption> read_captions(const std::string& file);

/// Lower-case words between white space. 0 is a caption's end, and what stands before its first word; 1 is a word that
/// is not known; then come the words of some captions, the most frequent first, of equal ones the first seen.
/// Immutable.
class caption_words {
public:
  static constexpr std::int64_t end = 0, unknown = 1;

  explicit caption_words(const std::vector<clip_caption>& known);
  std::int64_t size() const { return words_.size(); }
  /// Without an end.
  std::vector<std::int64_t> encode(std::string_view text) const;
  /// Up to the first end, words with blanks between; "<unk>" is one that is not known.
  std::string decode(std::span<const std::int64_t> ids) const;

private:
  vocabulary words_;
};

} // namespace penstock::apps
