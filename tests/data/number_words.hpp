// A tokenizer for tests: words are the numbers they spell.
#pragma once

#include "apps/text/tokenizer.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <charconv>

namespace penstock::test {

/// "7 8" is 7 and 8; any other word is 3. 0 pads, 1 begins, 2 ends, 99 masks.
class number_words final : public apps::tokenizer {
public:
  explicit number_words(apps::special_ids special = {.pad = 0, .unknown = 3, .begin = 1, .end = 2, .mask = 99})
      : special_(special) {}
  std::int64_t vocabulary_size() const override { return 100; }
  const apps::special_ids& special() const override { return special_; }
  std::string description() const override { return "numbers"; }

private:
  apps::token_ids encode_valid(std::string_view text) const override {
    apps::token_ids ids;
    while (!text.empty()) {
      const auto word = text.substr(0, text.find(' '));
      text.remove_prefix(std::min(word.size() + 1, text.size()));
      if (word.empty()) continue;
      std::int64_t id = 0;
      const auto read = std::from_chars(word.data(), word.data() + word.size(), id);
      ids.push_back(read.ec == std::errc() && read.ptr == word.data() + word.size() ? id : 3);
    }
    return ids;
  }
  std::string decode_valid(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const auto id : ids)
      text += (text.empty() ? "" : " ") + std::to_string(id);
    return text;
  }
  std::string token_valid(std::int64_t id) const override { return std::to_string(id); }

  apps::special_ids special_;
};

} // namespace penstock::test
