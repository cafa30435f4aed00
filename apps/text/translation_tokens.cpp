// A table each way.
#include "apps/text/translation_tokens.hpp"

#include "kernels/check.hpp"

namespace penstock::apps {

translation_tokens::translation_tokens(std::shared_ptr<const tokenizer> tokens) : tokens_(std::move(tokens)) {
  check(tokens_ != nullptr, "translation has a tokenizer");
  const auto& special = tokens_->special();
  // What text can hold comes first: where one token has two meanings, that of an unknown word is the one met.
  theirs_ = {special.pad, special.unknown, special.begin, special.end};
  ours_.assign(static_cast<std::size_t>(tokens_->vocabulary_size()), -1);
  for (const auto id : {unknown, begin, end, pad}) {
    const auto& known = theirs_[static_cast<std::size_t>(id)];
    if (known && ours_[static_cast<std::size_t>(*known)] < 0) ours_[static_cast<std::size_t>(*known)] = id;
  }
  for (std::size_t id = 0; id < ours_.size(); ++id) {
    if (ours_[id] >= 0) continue;
    ours_[id] = vocabulary_size();
    theirs_.emplace_back(static_cast<std::int64_t>(id));
  }
}

token_ids translation_tokens::encode(std::string_view text) const {
  auto ids = tokens_->encode(text);
  for (auto& id : ids)
    id = ours_[static_cast<std::size_t>(id)];
  return ids;
}

std::string translation_tokens::decode(std::span<const std::int64_t> ids) const {
  token_ids known;
  for (const auto id : ids) {
    if (id < 0 || id >= vocabulary_size())
      throw error("found the token id " + std::to_string(id) + ", wanted one from 0 to " +
                  std::to_string(vocabulary_size() - 1));
    const auto& theirs = theirs_[static_cast<std::size_t>(id)];
    if (id != pad && id != begin && id != end && theirs) known.push_back(*theirs);
  }
  return tokens_->decode(known);
}

} // namespace penstock::apps
