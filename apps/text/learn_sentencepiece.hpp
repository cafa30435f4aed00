// A model by sentencepiece's own trainer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::apps {

/// The bytes of a model of `pieces` pieces; `model` is "unigram" or "bpe". Throws error with the trainer's words.
std::string learn_sentencepiece(const std::vector<std::string>& files, const std::string& model, std::int64_t pieces);

} // namespace penstock::apps
