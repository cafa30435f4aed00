// Text to tokens, tokens to the translator, and its tokens to text.
#include "apps/runner/translate_lines.hpp"

#include "actors/checkpoint/weights_file.hpp"
#include "apps/runner/command_line.hpp"
#include "apps/runner/exit_codes.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/say.hpp"
#include "apps/runner/signals.hpp"
#include "apps/text/lines.hpp"
#include "apps/text/open_tokenizer.hpp"
#include "apps/text/translation_tokens.hpp"
#include "apps/translation/translator.hpp"
#include "kernels/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace penstock::apps {

namespace {

using ids = translation_tokens;
constexpr std::size_t lines_at_once = 2048;
constexpr std::size_t most_source_tokens = 1024; // those around a line included

struct translate_options {
  std::string input, tokenizer, weights;
  model_options network;
  std::map<std::string, std::string> own_texts;
  std::map<std::string, bool> own_switches;
  translator_options work;
};

bool read_options(command_line& line, translate_options& o, const std::string& model,
                  std::span<const std::string> arguments) {
  line.text("--translate", o.input, "FILE", "Translates its lines, instead of training; - is standard input");
  line.text("--tokenizer", o.tokenizer, "FILE", "That the model was trained with");
  line.text("--weights", o.weights, "FILE", "safetensors, as --save-weights writes them, or with MLPerf's names");
  for (const auto& own : find_model(model).options) {
    if (own.placeholder.empty())
      line.flag("--" + own.name, o.own_switches[own.name], own.help);
    else
      line.text("--" + own.name, o.own_texts[own.name], own.placeholder, own.help);
  }
  line.real("--width", o.network.width, 1e-6, widest, "As the model was trained");
  line.whole("--vocabulary", o.network.vocabulary, 1, 1 << 24, "As the model was trained [the tokenizer's]");
  line.whole("--beam", o.work.search.beam, 1, 1000, "Hypotheses of the search; 1: the best token at each step");
  line.whole("--max-length", o.work.search.most_tokens, 1, 1 << 20, "Tokens of a translation at most");
  line.whole("--batch", o.work.batch, 1, 1 << 20, "Lines that are translated together");
  line.whole("--stages", o.work.pipeline.stages, 1, 1024, "Stages of the pipeline");
  line.whole("--threads", o.work.pipeline.threads, 1, 1024, "Compute threads per stage [cores / stages]");
  line.flag("--reference-kernels", o.work.pipeline.reference_kernels, "Plain loops instead of oneDNN");
  line.footer("Exit codes: 0 done, 1 failed, 2 usage, 130 SIGINT, 143 SIGTERM.\n");
  if (!line.parse(arguments)) return false;
  for (const auto& [option, value] : {std::pair("--tokenizer", o.tokenizer), std::pair("--weights", o.weights)})
    if (value.empty()) throw usage_error(std::string(option) + ": wanted " + option + " FILE with --translate");
  for (const auto& [name, value] : o.own_texts)
    if (!value.empty()) o.network.own[name] = value;
  for (const auto& [name, is_set] : o.own_switches)
    if (is_set) o.network.own[name] = "yes";
  return true;
}

class line_translator {
public:
  line_translator(const std::string& model, translate_options o)
      : model_(model), options_(std::move(o)), tokens_(of_option("--tokenizer", [&] {
          return translation_tokens(std::shared_ptr<const tokenizer>(open_tokenizer(options_.tokenizer)));
        })) {
    auto& vocabulary = options_.network.vocabulary;
    if (vocabulary == 0) vocabulary = tokens_.vocabulary_size();
    if (vocabulary < tokens_.vocabulary_size())
      throw usage_error(fmt::format("--vocabulary: found {}, wanted at least the {} tokens of --tokenizer", vocabulary,
                                    tokens_.vocabulary_size()));
    const auto geometry = gnmt_geometry_of(model, gnmt_layers(model), options_.network);
    auto weights = read_weights();
    work_ = of_option("--stages", [&] { return std::make_unique<translator>(geometry, weights, options_.work); });
  }

  int run(const actors::run_control& control) {
    line_reader in(options_.input);
    while (!control.stop) {
      auto lines = read_some(in);
      if (lines.empty()) break;
      const auto texts = translations_of(lines, control);
      if (control.stop) break;
      for (const auto& text : texts)
        say(text + "\n");
    }
    if (cut_ > 0)
      complain(model_, fmt::format("{} line{} had more than {} tokens and {} cut", cut_, cut_ == 1 ? "" : "s",
                                   most_source_tokens, cut_ == 1 ? "was" : "were"));
    return signal_guard::exit_code();
  }

private:
  named_tensors read_weights() {
    const auto& entry = find_model(model_);
    auto found = actors::read_weights(std::make_shared<const model>(entry.build(options_.network)),
                                      {.file = options_.weights, .adapt = entry.adapt_weights}, pool_);
    if (!found.note.empty()) complain(model_, found.note);
    return actors::weights_of({std::move(found.whole)});
  }

  // Without the tokens around it: an empty line has none.
  std::vector<token_ids> read_some(line_reader& in) {
    std::vector<token_ids> lines;
    while (lines.size() < lines_at_once) {
      const auto text = in.next();
      if (!text) break;
      lines.push_back(tokens_.encode(*text));
      if (lines.back().size() <= most_source_tokens - 2) continue;
      lines.back().resize(most_source_tokens - 2);
      ++cut_;
    }
    return lines;
  }

  std::vector<std::string> translations_of(const std::vector<token_ids>& lines, const actors::run_control& control) {
    std::vector<std::size_t> places;
    std::vector<token_ids> sources;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].empty()) continue;
      places.push_back(i);
      auto& source = sources.emplace_back(1, ids::begin);
      source.insert(source.end(), lines[i].begin(), lines[i].end());
      source.push_back(ids::end);
    }
    std::vector<std::string> texts(lines.size());
    const auto found = work_->translate(sources, control.stop);
    for (std::size_t i = 0; i < found.size(); ++i)
      texts[places[i]] = text_of(found[i].tokens);
    return texts;
  }

  // A line is one line, whatever a token holds; what fills up a vocabulary is no text.
  std::string text_of(token_ids tokens) const {
    std::erase_if(tokens, [&](std::int64_t id) { return id >= tokens_.vocabulary_size(); });
    auto text = tokens_.decode(tokens);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  std::string model_;
  translate_options options_;
  translation_tokens tokens_;
  memory_pool pool_;
  std::unique_ptr<translator> work_;
  std::int64_t cut_ = 0;
};

} // namespace

bool wants_translation(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](std::string_view word) { return word == "--translate" || word.starts_with("--translate="); });
}

int translate_lines(std::string_view model, int argc, char** argv) {
  return run_guarded(model, [&]() -> int {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const std::string name(model);
    command_line line(name + " --translate", "Prints a translation for each line.");
    translate_options options;
    if (!read_options(line, options, name, arguments)) {
      say(line.help_text());
      return done;
    }
    actors::run_control control;
    const signal_guard signals(control, model);
    return line_translator(name, std::move(options)).run(control);
  });
}

} // namespace penstock::apps
