// Reads the text, lets one of the learners work, writes its files.
#include "apps/text/train_tokenizer.hpp"

#include "apps/text/bert_words.hpp"
#include "apps/text/learn_merges.hpp"
#include "apps/text/learn_sentencepiece.hpp"
#include "apps/text/learn_wordpiece.hpp"
#include "apps/text/lines.hpp"
#include "apps/text/subword_merges.hpp"
#include "apps/text/white_space.hpp"
#include "apps/text/wordpiece.hpp"
#include "apps/text/words.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <functional>

namespace penstock::apps {

namespace {

namespace fs = std::filesystem;

void for_each_line(const std::vector<std::string>& files, const std::function<void(std::string_view)>& use) {
  for (const auto& file : files) {
    line_reader lines(file);
    while (const auto line = lines.next())
      use(*line);
  }
}

void expect_words(const word_counts& words, const tokenizer_training& training) {
  if (words.as_seen().empty())
    throw error("found no words in " + join(training.inputs, ", ") + ", wanted text to learn from");
}

void write_file(const fs::path& file, std::string_view bytes) {
  atomic_file out(file);
  out.write(bytes);
  out.commit();
}

std::string lines_of(const std::vector<std::string>& tokens) {
  std::string text;
  for (const auto& token : tokens)
    text.append(token) += '\n';
  return text;
}

std::string train_merges(const tokenizer_training& training, const fs::path& out) {
  word_counts words;
  for_each_line(training.inputs,
                [&](std::string_view line) { split_blanks(line, [&](std::string_view word) { words.add(word); }); });
  expect_words(words, training);
  const auto merges = learn_merges(words, training.size, training.least_frequency);
  std::vector<std::string> lines{"#version: 0.2"};
  for (const auto& [left, right] : merges)
    lines.push_back(left + " " + right);
  // A word's pieces are the same wherever it is, so words are segmented once; they were met in the order of the text.
  const subword_segmenter segmenter(lines);
  word_counts tokens;
  for (const auto& [word, count] : words.as_seen())
    segmenter.segment(word, [&, times = count](std::string_view token) { tokens.add(token, times); });
  std::vector<std::string> vocab;
  for (const auto& [token, count] : tokens.by_count())
    vocab.push_back(token);
  const auto vocab_file = out.string() + ".vocab";
  write_file(vocab_file, lines_of(vocab));
  write_file(out, lines_of(lines));
  return std::to_string(merges.size()) + " merges in " + out.string() + ", " + std::to_string(vocab.size()) +
         " tokens in " + vocab_file;
}

std::string train_wordpiece(const tokenizer_training& training, const fs::path& out) {
  word_counts words;
  bert_words cut;
  cut.lower_case = cut.strip_accents = !training.keeps_case;
  cut.dialect = bert_dialect::tokenizers;
  const std::function<void(std::string_view)> add = [&](std::string_view word) { words.add(word); };
  for_each_line(training.inputs, [&](std::string_view line) { cut.of(line, add); });
  expect_words(words, training);
  const auto tokens = learn_wordpiece(words, bert_special_tokens(), training.size, training.least_frequency);
  if (static_cast<std::int64_t>(tokens.size()) > training.size)
    throw usage_error("found " + std::to_string(tokens.size()) +
                      " characters and special tokens, wanted a vocabulary of " + std::to_string(training.size) +
                      ", which holds fewer");
  write_file(out, lines_of(tokens));
  return std::to_string(tokens.size()) + " tokens in " + out.string();
}

std::string train_words(const tokenizer_training& training, const fs::path& out) {
  word_counts words;
  for_each_line(training.inputs, [&](std::string_view line) {
    split_white_space(line, [&](std::string_view word) { words.add(word); });
  });
  expect_words(words, training);
  const auto tokens = most_frequent(words, training.size);
  write_file(out, lines_of(tokens));
  return std::to_string(tokens.size()) + " of " + std::to_string(words.as_seen().size() + 2) + " tokens in " +
         out.string();
}

std::string train_sentencepiece(const tokenizer_training& training, const fs::path& out) {
  write_file(out, learn_sentencepiece(training.inputs, training.model, training.size));
  return std::to_string(training.size) + " pieces in " + out.string();
}

} // namespace

std::string train_tokenizer(const tokenizer_training& training, const fs::path& out) {
  if (training.inputs.empty()) throw usage_error("found no text, wanted files to learn from");
  if (training.kind == "merges") return train_merges(training, out);
  if (training.kind == "wordpiece") return train_wordpiece(training, out);
  if (training.kind == "words") return train_words(training, out);
  if (training.kind == "sentencepiece") return train_sentencepiece(training, out);
  throw usage_error("unknown kind of tokenizer " + in_quotes(training.kind) +
                    ", wanted wordpiece, merges, sentencepiece or words");
}

} // namespace penstock::apps
