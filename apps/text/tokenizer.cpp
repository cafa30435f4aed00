// The checks that all kinds of tokenizers share.
#include "apps/text/tokenizer.hpp"

#include "apps/text/unicode.hpp"
#include "kernels/check.hpp"

namespace penstock::apps {

using namespace unicode;

namespace {

void require_known(std::int64_t id, std::int64_t size) {
  if (id < 0 || id >= size)
    throw error("found the token id " + std::to_string(id) + ", wanted one from 0 to " + std::to_string(size - 1));
}

} // namespace

bool special_ids::holds(std::int64_t id) const {
  return id == pad || id == unknown || id == begin || id == end || id == mask;
}

token_ids tokenizer::encode(std::string_view text) const {
  require_utf8(text);
  return encode_valid(text);
}

std::string tokenizer::decode(std::span<const std::int64_t> ids) const {
  for (const auto id : ids)
    require_known(id, vocabulary_size());
  return decode_valid(ids);
}

std::string tokenizer::token(std::int64_t id) const {
  require_known(id, vocabulary_size());
  return token_valid(id);
}

token_ids tokenizer::wrapped(token_ids ids) const {
  if (special().begin) ids.insert(ids.begin(), *special().begin);
  if (special().end) ids.push_back(*special().end);
  return ids;
}

} // namespace penstock::apps
