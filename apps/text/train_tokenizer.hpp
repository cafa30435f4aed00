// Makes tokenizers from text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace penstock::apps {

struct tokenizer_training {
  std::string kind; ///< wordpiece, merges, sentencepiece, words
  /// Tokens wanted, special ones included; of merges, merges (as subword-nmt counts them).
  std::int64_t size = 0;
  std::vector<std::string> inputs;  ///< text files; "-" is standard input
  std::int64_t least_frequency = 2; ///< of a merge (wordpiece, merges)
  bool keeps_case = false;          ///< wordpiece: BERT cased
  std::string model = "unigram";    ///< sentencepiece: or bpe
};

/// Files that appear together once training is done, and a line on what was made. The same text gives the same bytes.
/// Throws error for text that cannot be read or holds too little, usage_error for what does not fit together.
///
/// merges: `out` is what `subword-nmt learn-bpe -s size` writes, byte for byte; `out`.vocab has the tokens of the text,
/// segmented, most frequent first, as `subword-nmt get-vocab` sorts them.
/// wordpiece: a vocab.txt by the algorithm of Hugging Face's WordPieceTrainer: special tokens, the 1000 most frequent
/// characters, then merges of the most frequent pair. Its order of pairs that are equally frequent depends on hashing;
/// here symbols that were seen first come first, so of its vocabularies this is one.
/// sentencepiece: its own trainer, one thread, with <pad> 0, <unk> 1, <s> 2, </s> 3.
/// words: <unk>, <eos>, then the most frequent words.
std::string train_tokenizer(const tokenizer_training& training, const std::filesystem::path& out);

} // namespace penstock::apps
