// A tokenizer's tokens as models of translation number them.
#pragma once

#include "apps/text/tokenizer.hpp"

#include <memory>

namespace penstock::apps {

/// PAD 0, UNK 1, BOS 2, EOS 3, as GNMT has them, then all other tokens in the tokenizer's order. A tokenizer that has
/// these there keeps its ids; one that lacks some has so many tokens fewer. Immutable; any thread may call anything.
class translation_tokens {
public:
  static constexpr std::int64_t pad = 0, unknown = 1, begin = 2, end = 3;

  explicit translation_tokens(std::shared_ptr<const tokenizer> tokens);

  std::int64_t vocabulary_size() const { return static_cast<std::int64_t>(theirs_.size()); }
  /// Of one line, with nothing around; throws as tokenizer::encode.
  token_ids encode(std::string_view text) const;
  /// The text of ids, without special tokens; an id outside the vocabulary throws error.
  std::string decode(std::span<const std::int64_t> ids) const;
  std::string description() const { return tokens_->description(); }

private:
  std::shared_ptr<const tokenizer> tokens_;
  std::vector<std::int64_t> ours_;                  // by the tokenizer's ids
  std::vector<std::optional<std::int64_t>> theirs_; // by the model's
};

} // namespace penstock::apps
