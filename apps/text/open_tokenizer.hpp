// Tokenizers by file.
#pragma once

#include "apps/text/tokenizer.hpp"

#include <memory>
#include <string>

namespace penstock::apps {

/// A file, whose content says its kind, or "KIND:FILE" with KIND one of wordpiece, wordpiece-cased, wordpiece-uncased,
/// merges, sentencepiece, words, json. Merges need their vocabulary: "merges:FILE,VOCAB", else FILE.vocab beside it.
/// Throws usage_error for a specification of the wrong form and error for files, in one line that names the file.
std::unique_ptr<tokenizer> open_tokenizer(const std::string& spec);

} // namespace penstock::apps
