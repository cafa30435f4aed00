// `penstock tokenizer`: trains tokenizers, shows what they make of text.
#include "apps/runner/command_line.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/output_files.hpp"
#include "apps/runner/say.hpp"
#include "apps/text/lines.hpp"
#include "apps/text/open_tokenizer.hpp"
#include "apps/text/train_tokenizer.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "tools/commands.hpp"

#include <charconv>
#include <cstdio>

namespace penstock::tools {

namespace {

constexpr const char* help = R"(Trains tokenizers, and shows what they make of text.
Usage: penstock tokenizer train --kind KIND --vocab N -o FILE INPUT...
       penstock tokenizer encode FILE
       penstock tokenizer decode FILE

  train     learn a vocabulary from text
  encode    lines of text from standard input, their ids to standard output
  decode    the other way round

FILE is BERT's vocab.txt, merges of subword-nmt (their tokens in FILE.vocab), a model of
sentencepiece, a tokenizer.json of Hugging Face, or a list of words; its content says which.
`penstock tokenizer train --help` tells more of each, with examples.
)";

constexpr std::int64_t most_tokens = 10'000'000;
constexpr std::size_t piece_bytes = 1 << 16;

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw error("cannot write to standard output");
}

int train(std::span<const std::string> arguments) {
  apps::tokenizer_training training;
  std::string output;
  apps::command_line line("penstock tokenizer train", "Learns a vocabulary from text, a sentence a line.");
  line.positionals("INPUT", training.inputs, "Text files; - is standard input");
  line.choice("--kind", training.kind, {"wordpiece", "merges", "sentencepiece", "words"}, "What is made");
  line.whole("--vocab", training.size, 1, most_tokens,
             "Tokens, special ones included; with merges the number of merges, as `subword-nmt learn-bpe -s`");
  line.text("-o,--output", output, "FILE", "The tokenizer; merges write their tokens to FILE.vocab as well");
  line.group("By kind");
  line.whole("--min-frequency", training.least_frequency, 1, "Merge no pair that is rarer (wordpiece, merges)");
  line.flag("--cased", training.keeps_case, "Keep capitals and accents (wordpiece)");
  line.choice("--model", training.model, {"unigram", "bpe"}, "unigram or bpe (sentencepiece)");
  line.footer(R"(Examples:
  penstock tokenizer train --kind wordpiece --vocab 8000 -o vocab.txt train.txt
  penstock tokenizer train --kind merges --vocab 8000 -o joint.bpe train.en train.es
  penstock tokenizer train --kind sentencepiece --model bpe --vocab 8000 -o spm.model train.txt
  penstock tokenizer train --kind words --vocab 10000 -o words.txt train.txt

The same text gives the same file. wordpiece follows Hugging Face's WordPieceTrainer; where its
choice between equally frequent pairs depends on hashing, what was seen first wins. merges are,
byte for byte, those of subword-nmt. sentencepiece has <pad> 0, <unk> 1, <s> 2, </s> 3.)");
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  if (training.kind.empty()) throw usage_error("--kind: missing, wanted wordpiece, merges, sentencepiece or words");
  if (training.size == 0) throw usage_error("--vocab: missing, wanted the number of tokens");
  if (output.empty()) throw usage_error("--output: missing, wanted the tokenizer's file");
  if (training.inputs.empty())
    throw usage_error("tokenizer train: found no INPUT, wanted text files behind the options");
  const std::vector<std::pair<std::string, bool>> bound{
      {"--min-frequency", training.kind == "wordpiece" || training.kind == "merges"},
      {"--cased", training.kind == "wordpiece"},
      {"--model", training.kind == "sentencepiece"}};
  for (const auto& [option, fits] : bound)
    if (line.given(option) && !fits) throw usage_error(option + ": has no meaning with --kind " + training.kind);
  apps::check_output_file("--output", output);
  apps::say(apps::train_tokenizer(training, output) + "\n");
  return 0;
}

void encode_lines(const apps::tokenizer& t, bool as_tokens, bool wraps) {
  apps::line_reader lines("-");
  std::string out;
  while (const auto text = lines.next()) {
    auto ids = t.encode(*text);
    if (wraps) ids = t.wrapped(std::move(ids));
    for (std::size_t i = 0; i < ids.size(); ++i)
      (out += i == 0 ? "" : " ") += as_tokens ? t.token(ids[i]) : std::to_string(ids[i]);
    out += '\n';
    if (out.size() < piece_bytes) continue;
    print(out);
    out.clear();
  }
  print(out);
}

apps::token_ids ids_of(const apps::line_reader& lines, std::string_view text) {
  apps::token_ids ids;
  for (std::size_t at = 0; (at = text.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    const auto end = std::min(text.find_first_of(" \t", at), text.size());
    const auto word = text.substr(at, end - at);
    std::int64_t id = 0;
    const auto [rest, fault] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (fault != std::errc() || rest != word.data() + word.size())
      lines.fail("found " + in_quotes(word) + ", wanted token ids with blanks between");
    ids.push_back(id);
    at = end;
  }
  return ids;
}

void decode_lines(const apps::tokenizer& t) {
  apps::line_reader lines("-");
  std::string out;
  while (const auto text = lines.next()) {
    try {
      out += t.decode(ids_of(lines, *text)) + "\n";
    } catch (const error& fault) {
      const std::string what = fault.what();
      if (what.starts_with("standard input")) throw;
      lines.fail(what);
    }
    if (out.size() < piece_bytes) continue;
    print(out);
    out.clear();
  }
  print(out);
}

int use(const std::string& action, std::span<const std::string> arguments) {
  std::string file;
  bool as_tokens = false;
  bool wraps = false;
  bool describes = false;
  const bool encodes = action == "encode";
  apps::command_line line("penstock tokenizer " + action,
                          encodes ? "Lines of text from standard input, their ids to standard output."
                                  : "Lines of ids from standard input, their text to standard output.");
  line.positional("FILE", file, "A tokenizer, or KIND:FILE; merges:FILE,VOCAB where VOCAB is not FILE.vocab");
  if (encodes) {
    line.flag("--tokens", as_tokens, "Tokens instead of ids");
    line.flag("--special", wraps, "With the tokens that begin and end a sequence");
  }
  line.flag("--describe", describes, "Say what the tokenizer is instead");
  line.footer(encodes ? "Examples:\n  penstock tokenizer encode vocab.txt < lines.txt > ids.txt\n"
                        "  echo 'In the beginning' | penstock tokenizer encode --tokens merges:joint.bpe,joint.vocab"
                      : "Example:\n  penstock tokenizer decode vocab.txt < ids.txt");
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  if (file.empty()) throw usage_error("tokenizer " + action + ": found no FILE, wanted a tokenizer");
  const auto opened = apps::open_tokenizer(file);
  if (describes)
    apps::say(opened->description() + "\n");
  else if (encodes)
    encode_lines(*opened, as_tokens, wraps);
  else
    decode_lines(*opened);
  return 0;
}

} // namespace

int tokenizer_command(std::span<const std::string> arguments) {
  const std::vector<std::string> actions{"train", "encode", "decode"};
  const auto action = arguments.empty() ? std::string() : arguments.front();
  if (action == "--help" || action == "-h") {
    std::fputs(help, stdout);
    return 0;
  }
  if (action == "train") return train(arguments.subspan(1));
  if (action == "encode" || action == "decode") return use(action, arguments.subspan(1));
  if (action.empty()) throw usage_error("tokenizer: wanted train, encode or decode");
  throw usage_error("tokenizer: found " + in_quotes(action) + did_you_mean(action, actions) +
                    ", wanted train, encode or decode");
}

} // namespace penstock::tools
