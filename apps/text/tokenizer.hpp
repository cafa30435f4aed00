// What turns lines of text into token ids and back, whatever the kind of vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::apps {

using token_ids = std::vector<std::int64_t>;

/// Ids with a meaning of their own; absent where a vocabulary has no such token.
struct special_ids {
  std::optional<std::int64_t> pad{};
  std::optional<std::int64_t> unknown{};
  std::optional<std::int64_t> begin{}; ///< before a sequence: BOS, [CLS]
  std::optional<std::int64_t> end{};   ///< behind a sequence: EOS, [SEP], <eos>
  std::optional<std::int64_t> mask{};

  bool operator==(const special_ids&) const = default;
  bool holds(std::int64_t id) const; ///< is it one of them?
};

/// Immutable; any thread may call anything at any time.
class tokenizer {
public:
  virtual ~tokenizer() = default;

  /// Ids of one line (or a part of one, or several with their ends), each in [0, vocabulary_size()). Nothing is put
  /// around them. Throws error for text that is no UTF-8: "byte 3 ...", counted from 1.
  token_ids encode(std::string_view text) const;
  /// The text of ids. Special tokens are left out; an id outside the vocabulary throws error.
  std::string decode(std::span<const std::int64_t> ids) const;
  /// The token as it stands in the vocabulary. Throws error for an id outside.
  std::string token(std::int64_t id) const;
  /// With the begin and end token around them, where the vocabulary has them.
  token_ids wrapped(token_ids ids) const;

  virtual std::int64_t vocabulary_size() const = 0;
  virtual const special_ids& special() const = 0;
  /// "WordPiece, lower case, 30522 tokens".
  virtual std::string description() const = 0;

protected:
  tokenizer() = default;
  tokenizer(const tokenizer&) = delete;
  tokenizer& operator=(const tokenizer&) = delete;

private:
  virtual token_ids encode_valid(std::string_view utf8) const = 0;
  virtual std::string decode_valid(std::span<const std::int64_t> ids) const = 0;
  virtual std::string token_valid(std::int64_t id) const = 0;
};

} // namespace penstock::apps
