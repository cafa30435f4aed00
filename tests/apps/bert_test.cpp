// BERT as a person runs it: weights of other spellings into stages, and lines that become vectors.
#include "kernels/safetensors.hpp"
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing_support::write_file;

class BertApp : public testing::Test {
protected:
  void SetUp() override {
    write_file(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n##b\n##c\nd\n");
    write_file(folder_ / "config.json",
               R"({"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
                   "intermediate_size": 12, "max_position_embeddings": 10})");
  }

  process_result bert(const std::vector<std::string>& arguments, const std::string& lines = "") {
    write_file(folder_ / "lines.txt", lines);
    std::string command;
    for (const auto& word : program("bert", arguments))
      command += "'" + word + "' ";
    return run_process({"/bin/sh", "-c", command + "< lines.txt"}, patience,
                       {.folder = folder_.path(), .variables = {}});
  }
  process_result embed(const std::string& lines, std::vector<std::string> more = {}) {
    std::vector<std::string> all{"--embed",     "--tokenizer", "vocab.txt",         "--hf-config",
                                 "config.json", "--weights",   "minilm.safetensors"};
    all.insert(all.end(), more.begin(), more.end());
    return bert(all, lines);
  }

  // Of the form of MiniLM's: no "bert.", position ids, a pooler, no head.
  void make_weights() {
    const auto run = bert({"--hf-config", "config.json", "--length", "6", "--synthetic-samples", "8", "--batch", "4",
                           "--steps", "2", "--save-weights", "trained.safetensors"});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    memory_pool pool;
    named_tensors tensors;
    for (const auto& [name, value] : read_safetensors(folder_ / "trained.safetensors", pool).tensors)
      if (name.starts_with("bert.")) tensors.emplace(name.substr(5), value);
    auto ids = tensor::allocate(pool, dtype::i64, {1, 10}, memory_use::scratch);
    std::fill_n(ids.data<std::int64_t>(), 10, 0);
    tensors.emplace("embeddings.position_ids", ids);
    write_safetensors(folder_ / "minilm.safetensors", tensors);
  }

  testing_support::temporary_folder folder_;
};

nlohmann::json last_line(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    last = line;
  return nlohmann::json::parse(last);
}

std::vector<std::vector<double>> vectors_of(const std::string& output) {
  std::vector<std::vector<double>> all;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    all.push_back(nlohmann::json::parse(line).get<std::vector<double>>());
  return all;
}

TEST_F(BertApp, AFileOfMiniLMsFormLoadsIntoStages) {
  make_weights();
  const auto run = bert({"--hf-config", "config.json", "--length", "6", "--synthetic-samples", "8", "--batch", "4",
                         "--steps", "1", "--stages", "3", "--weights", "minilm.safetensors"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("drawn anew (2): classifier.bias, classifier.weight"));
}

// What transformers' strict loading wants: both of its names for each of the two tensors that have two.
TEST_F(BertApp, ATiedHeadIsSavedUnderBothNamesAndCountsOnce) {
  const std::vector<std::string> pretraining{"--hf-config",
                                             "config.json",
                                             "--head",
                                             "pretraining",
                                             "--length",
                                             "6",
                                             "--batch",
                                             "4",
                                             "--steps",
                                             "3",
                                             "--schedule",
                                             "1f1b",
                                             "--stages",
                                             "3",
                                             "--synthetic-samples",
                                             "8"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), pretraining.begin(), pretraining.end());
    return bert(more);
  };
  const auto run = with({"--save-weights", "tied.safetensors"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  memory_pool pool;
  const auto saved = read_safetensors(folder_ / "tied.safetensors", pool).tensors;
  EXPECT_EQ(saved.size(), 5U + 2 * 16 + 2 + 5 + 2 + 2);
  for (const auto& [alias, name] :
       {std::pair("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        {"cls.predictions.decoder.bias", "cls.predictions.bias"}}) {
    const auto& one = saved.at(alias);
    const auto& other = saved.at(name);
    ASSERT_EQ(one.dims(), other.dims());
    EXPECT_EQ(std::memcmp(one.raw(), other.raw(), one.bytes()), 0) << alias;
  }
  EXPECT_EQ(with({"--weights", "tied.safetensors", "--eval-only"}).exit_code, 0);
  const auto apart = with({"--schedule", "pipedream"});
  EXPECT_EQ(apart.exit_code, 2);
  EXPECT_THAT(apart.errors, HasSubstr("--untied"));
  EXPECT_EQ(with({"--schedule", "pipedream", "--untied", "--weights", "tied.safetensors"}).exit_code, 0);
}

TEST_F(BertApp, AFileOfEverySpellingLoadsIntoStagesOfATiedHead) {
  const std::vector<std::string> pretraining{
      "--hf-config",         "config.json", "--head",  "pretraining", "--length",   "6",
      "--synthetic-samples", "8",           "--batch", "4",           "--schedule", "1f1b"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), pretraining.begin(), pretraining.end());
    return bert(more);
  };
  ASSERT_EQ(with({"--steps", "2", "--save-weights", "own.safetensors"}).exit_code, 0);
  memory_pool pool;
  named_tensors other;
  for (const auto& [own, value] : read_safetensors(folder_ / "own.safetensors", pool).tensors) {
    auto name = own;
    if (name.starts_with("cls.predictions.decoder.")) continue; // the tied head
    if (name.starts_with("bert.")) name.erase(0, 5);
    if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
    other.emplace(name, value);
  }
  auto ids = tensor::allocate(pool, dtype::i64, {1, 10}, memory_use::scratch);
  std::fill_n(ids.data<std::int64_t>(), 10, 0);
  other.emplace("embeddings.position_ids", ids);
  write_safetensors(folder_ / "other.safetensors", other);
  const auto of = [&](const std::string& file, const std::string& stages) {
    const auto run = with({"--eval-only", "--weights", file, "--stages", stages});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const auto at = run.output.find("weights_sha256");
    return run.output.substr(at, run.output.find('\n', at) - at);
  };
  EXPECT_EQ(of("other.safetensors", "4"), of("own.safetensors", "1"));
}

TEST_F(BertApp, MaskedTextGoesOnInTheMiddleOfAnEpochWithTheSameBits) {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += std::string("a b c d a\nbc d b ab\nd a c\n") + (i % 4 == 0 ? "\n" : "");
  write_file(folder_ / "train.txt", text);
  write_file(folder_ / "valid.txt", text);
  auto with = [&](std::vector<std::string> more) {
    for (const char* word : {"--hf-config",
                             "config.json",
                             "--head",
                             "pretraining",
                             "--data",
                             "masked-text:.",
                             "--tokenizer",
                             "vocab.txt",
                             "--batch",
                             "6",
                             "--epochs",
                             "2",
                             "--optimizer",
                             "adamw",
                             "--schedule",
                             "1f1b",
                             "--stages",
                             "3",
                             "--microbatches",
                             "2",
                             "--checkpoint-every",
                             "5"})
      more.emplace_back(word);
    return bert(more);
  };
  const auto whole = with({"--checkpoint", "whole"});
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  EXPECT_THAT(whole.output, HasSubstr("masked_accuracy"));
  ASSERT_EQ(with({"--checkpoint", "part", "--steps", "5", "--eval-every", "-1"}).exit_code, 0);
  const auto rest = with({"--checkpoint", "part", "--resume"});
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  const auto hashes = [](const process_result& run) {
    const auto at = run.output.find("weights_sha256");
    return run.output.substr(at, run.output.find("drains") - at);
  };
  EXPECT_EQ(hashes(rest), hashes(whole));
  const auto refused = with({"--checkpoint", "no", "--batch-tokens", "100"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("--batch-tokens: samples of masked-text fill --max-length"));
}

TEST_F(BertApp, QuestionsAreAnsweredAndJudgedAsWholes) {
  std::string paragraphs;
  for (int i = 0; i < 6; ++i)
    paragraphs += std::string(i > 0 ? ", " : "") + R"({"context": "a b c d a b", "qas": [{"id": ")" +
                  std::to_string(i) + R"(", "question": "d", "answers": [{"text": "c d", "answer_start": 4}]}]})";
  write_file(folder_ / "train.json", R"({"data": [{"paragraphs": [)" + paragraphs + "]}]}");
  write_file(folder_ / "dev.json", R"({"data": [{"paragraphs": [)" + paragraphs + "]}]}");
  auto with = [&](std::vector<std::string> more) {
    for (const char* word : {"--hf-config", "config.json", "--head", "span", "--data", "squad:.", "--tokenizer",
                             "vocab.txt", "--batch", "3", "--dropout", "0", "--metrics", "m.jsonl"})
      more.emplace_back(word);
    return bert(more);
  };
  const auto run = with({"--optimizer", "adamw", "--lr", "1e-2", "--epochs", "30", "--eval-every", "30", "--stages",
                         "2", "--save-weights", "w.safetensors"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("exact_match 100.00 %, f1 100.00 %")) << "one question, learnt by heart";
  EXPECT_THAT(read_text(folder_ / "m.jsonl"), HasSubstr(R"("exact_match":1.0,"f1":1.0)"));
  const auto again = with({"--eval-only", "--weights", "w.safetensors", "--stages", "3"});
  EXPECT_THAT(again.output, HasSubstr("exact_match 100.00 %, f1 100.00 %")) << again.errors;
  write_file(folder_ / "dev.json", R"({"data": [{"paragraphs": [{"context": "a b"}]}]})");
  const auto refused = with({"--eval-only"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.errors, HasSubstr("dev.json: article 1: paragraph 1: found no \"qas\", wanted a list"));
}

TEST_F(BertApp, ClassesAreJudgedByMacroF1) {
  std::string text;
  for (int i = 0; i < 8; ++i)
    text += i % 2 == 0 ? "noun\ta b\n" : "verb\tc d\n";
  write_file(folder_ / "train.tsv", text);
  write_file(folder_ / "test.tsv", "noun\ta b\nverb\tc d\nverb\tc d c d\n");
  const auto run =
      bert({"--hf-config", "config.json", "--data", "labelled-text:.", "--tokenizer", "vocab.txt", "--dropout", "0",
            "--batch", "4", "--optimizer", "adamw", "--lr", "1e-2", "--epochs", "20", "--eval-every", "20"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("macro_f1 100.00 %"));
}

TEST_F(BertApp, LabelledTextThatDoesNotFitIsRefusedInOneLine) {
  write_file(folder_ / "train.tsv", "noun\ta b c d\nverb\td c b a\n");
  const std::vector<std::string> fits{"--hf-config",  "config.json", "--data",  "labelled-text:train.tsv",
                                      "--steps",      "1",           "--batch", "2",
                                      "--eval-every", "-1"};
  const auto run_with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), fits.begin(), fits.end());
    return bert(more);
  };
  EXPECT_EQ(run_with({"--tokenizer", "vocab.txt"}).exit_code, 0) << "as long as the model takes, unless told";
  EXPECT_EQ(run_with({"--tokenizer", "vocab.txt", "--max-length", "10"}).exit_code, 0);
  const std::vector<std::pair<std::vector<std::string>, std::string>> refusals{
      {{"--tokenizer", "vocab.txt", "--max-length", "11"},
       "found 11 tokens of a sequence (--max-length), wanted at most the 10 that bert takes"},
      {{}, "text needs a tokenizer: wanted --tokenizer FILE"},
      {{"--data", "synthetic:", "--tokenizer", "vocab.txt"}, "data 'synthetic:': wanted synthetic"},
      {{"--data", "labelled-txt:x", "--tokenizer", "vocab.txt"}, "did you mean 'labelled-text'"}};
  for (const auto& [arguments, says] : refusals) {
    const auto refused = run_with(arguments);
    EXPECT_EQ(refused.exit_code, 2) << says;
    ASSERT_EQ(refused.error_lines().size(), 1U) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr(says));
  }
}

TEST_F(BertApp, ARunInBucketsGoesOnWithinAnEpochToTheSameBits) {
  std::string text;
  for (int i = 0; i < 37; ++i) {
    text += i % 3 == 0 ? "noun\ta" : "verb\tb";
    for (int words = 0; words < i * 5 % 8; ++words)
      text += std::string(" ") + "abcd"[(i + words) % 4];
    text += '\n';
  }
  write_file(folder_ / "train.tsv", text);
  const auto train = [&](const std::string& to, std::vector<std::string> more) {
    std::vector<std::string> all{"--hf-config",    "config.json",
                                 "--data",         "labelled-text:train.tsv",
                                 "--tokenizer",    "vocab.txt",
                                 "--batch",        "4",
                                 "--bucket-width", "2",
                                 "--epochs",       "2",
                                 "--stages",       "2",
                                 "--schedule",     "1f1b",
                                 "--microbatches", "2",
                                 "--metrics",      to + ".jsonl",
                                 "--checkpoint",   to};
    all.insert(all.end(), more.begin(), more.end());
    return bert(all);
  };
  const auto whole = train("whole", {}), part = train("parts", {"--steps", "7"}), rest = train("parts", {"--resume"});
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  ASSERT_EQ(part.exit_code, 0) << part.errors;
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(whole.output, testing::ContainsRegex("[0-9]+ minibatches of [2-9] shapes, [0-9]+[.][0-9]% padding"));
  const auto one = last_line(folder_ / "whole.jsonl"), two = last_line(folder_ / "parts.jsonl");
  EXPECT_EQ(two["resumed_after"], 7);
  EXPECT_EQ(one["steps"], two["steps"]);
  for (const char* hash : {"weights_sha256", "state_sha256"})
    EXPECT_EQ(one[hash], two[hash]) << hash;
}

TEST_F(BertApp, EveryLineBecomesAVectorOfLengthOneWhateverTheStages) {
  make_weights();
  const std::string lines = "a b c\n\nabc\nd d d d d d d\nb\n";
  const auto one = embed(lines), three = embed(lines, {"--stages", "3", "--batch", "2"});
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  ASSERT_EQ(three.exit_code, 0) << three.errors;
  const auto found = vectors_of(one.output), other = vectors_of(three.output);
  ASSERT_EQ(found.size(), 5U);
  ASSERT_EQ(other.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(found[i].size(), 8U);
    double squares = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      squares += found[i][k] * found[i][k];
      EXPECT_NEAR(found[i][k], other[i][k], 1e-6) << "line " << i; // other neighbours, other padding
    }
    EXPECT_NEAR(squares, 1, 1e-6);
  }
  EXPECT_NE(found[0], found[4]);
}

TEST_F(BertApp, LongLinesAreCutAndCounted) {
  make_weights();
  const auto run = embed("a b c d a b c d d d d\na b c d a b c d\n");
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto found = vectors_of(run.output);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_THAT(run.errors, HasSubstr("1 line had more than 10 tokens and was cut"));
}

TEST_F(BertApp, BadInputIsRefusedInOneLine) {
  make_weights();
  const auto text = embed("a\nb \xff\n");
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.errors, HasSubstr("line 2"));
  EXPECT_EQ(embed("").output, "");
  EXPECT_EQ(bert({"--embed", "--weights", "w"}).exit_code, 2);
  EXPECT_EQ(embed("a\n", {"--stages", "900"}).exit_code, 2);
  EXPECT_EQ(embed("a\n", {"--max-length", "11"}).exit_code, 2);
}

} // namespace
} // namespace penstock::test
