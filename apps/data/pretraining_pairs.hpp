// BERT's pretraining samples: two pieces of text, of which the second follows the first or does not, with words masked.
#pragma once

#include "actors/labelled_images.hpp"
#include "apps/data/sample_random.hpp"
#include "apps/data/token_rows.hpp"

namespace penstock::apps {

/// Sentences, and the first of each document, ascending: the first document begins with sentence 0.
struct document_rows {
  token_rows sentences;
  std::vector<std::size_t> firsts;
};

struct pair_options {
  std::int64_t most_tokens = 128; ///< of a sample, [CLS] and two [SEP] included; at least least_pair_tokens
  std::int64_t vocabulary = 0;    ///< a random word is any of these
  std::int64_t begin = 0;         ///< [CLS]
  std::int64_t end = 0;           ///< [SEP]
  std::int64_t mask = 0;
};

inline constexpr std::int64_t least_pair_tokens = 5;

/// Masked words at most of so many tokens: 20 of 128, 77 of 512.
std::int64_t most_masked(std::int64_t tokens);

struct pretraining_sample {
  std::vector<std::int32_t> ids;     ///< [CLS] first piece [SEP] second piece [SEP], some of them masked
  std::int64_t second = 0;           ///< where the second piece begins
  std::vector<std::int64_t> masked;  ///< positions, ascending; at least one
  std::vector<std::int64_t> answers; ///< what stood there
  bool is_random = false;            ///< the second piece is from elsewhere
};

/// The rules are those of create_pretraining_data.py in google-research/bert. A document is cut into chunks of
/// sentences, as many as fill a sample; each is a sample. Of it a sample takes as many sentences from the first on as
/// fill it (one in ten samples: a random shorter length), the first of these, a random number, as its first piece. The
/// second piece is the rest or, half the time and where there is no rest, text from a random place of another document.
/// What is too long loses tokens at random ends of the longer piece. 15% of the tokens are masked: 80% by [MASK], 10%
/// by a random word, 10% by themselves. But for the chunks all of it is drawn anew from (seed, epoch, sample). One
/// difference: what a random second piece displaces comes in other epochs, not in further samples. Thread safe.
class pretraining_pairs {
public:
  /// Throws usage_error for a limit that is too low, and where there is but one document and all of it is one sample.
  pretraining_pairs(document_rows text, const pair_options& options);

  std::int64_t size() const { return static_cast<std::int64_t>(chunks_.size()); }
  const document_rows& text() const { return text_; }

  struct measures {
    std::int64_t tokens = 0;
    std::int64_t masked = 0;
  };
  /// Of what make() would give, without making it.
  measures measure(const actors::sample_key& key) const;
  pretraining_sample make(const actors::sample_key& key) const;

private:
  struct chunk {
    std::size_t document = 0;
    std::size_t first = 0; ///< sentence
    std::size_t last = 0;  ///< behind the last one
  };
  struct piece {
    std::size_t first = 0;
    std::size_t last = 0;
    std::int64_t tokens = 0; ///< that are left
    std::int64_t cut = 0;    ///< at the front
  };
  struct pair {
    piece a;
    piece b;
    bool is_random = false;
  };
  std::size_t end_of(std::size_t document) const;
  std::int64_t tokens_of(std::size_t sentence) const {
    return static_cast<std::int64_t>(text_.sentences.row(sentence).size());
  }
  piece filled(std::size_t first, std::size_t last, std::int64_t tokens) const;
  piece text_from_elsewhere(const chunk& of, std::int64_t tokens, sample_random& random) const;
  pair draw(const chunk& from, sample_random& random) const;
  void shorten(pair& p, sample_random& random) const;
  std::int64_t masked_of(std::int64_t tokens) const;
  void put(const piece& p, std::vector<std::int32_t>& ids) const;
  void mask(pretraining_sample& s, sample_random& random) const;

  document_rows text_;
  pair_options options_;
  std::vector<chunk> chunks_;
};

} // namespace penstock::apps
