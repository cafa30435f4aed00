// `penstock score`: what a model's text is worth beside what people wrote.
#include "apps/metrics/captions.hpp"
#include "apps/metrics/class_tally.hpp"
#include "apps/metrics/lines.hpp"
#include "apps/metrics/squad.hpp"
#include "apps/runner/command_line.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/say.hpp"
#include "apps/runner/text_file.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "tools/commands.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace penstock::tools {

namespace {

using apps::bleu_score;

constexpr const char* help = R"(Scores text that a model wrote.
Usage: penstock score bleu|captions|classes|squad FILE TRUTH [OPTIONS]

  penstock score bleu HYP REF           BLEU of a translation, as `sacrebleu -lc --tokenize intl` gives it
  penstock score captions HYP REF       captions that are exactly right, and BLEU-4
  penstock score classes SAID TRUTH     accuracy and macro F1 of labels, one a line
  penstock score squad ANSWERS DEV      exact match and F1 of answers, {"id": "text", ...}, for SQuAD's questions
)";

const std::vector<std::string> kinds{"bleu", "captions", "classes", "squad"};

struct two_files {
  std::string ours;
  std::string truth;
};

// False when help was asked for, which is then printed.
bool parse(apps::command_line& line, two_files& files, const std::string& kind, const std::string& ours,
           const std::string& truth, std::span<const std::string> arguments) {
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return false;
  }
  if (files.ours.empty() || files.truth.empty())
    throw usage_error("score " + kind + ": wanted two files, penstock score " + kind + " " + ours + " " + truth);
  return true;
}

std::string text_of(const std::string& file) {
  return apps::of_option("score", [&] { return apps::read_text_file(file); });
}

std::vector<std::string> lines_of(const std::string& file) {
  return apps::lines_of(text_of(file), file);
}

void expect_as_many(const std::string& file, std::size_t lines, const std::string& truth, std::size_t wanted) {
  if (lines == wanted) return;
  throw usage_error(fmt::format("{}: found {} lines, wanted {} as in {}: line {} of {} has nothing to be compared with",
                                file, lines, wanted, truth, std::min(lines, wanted) + 1,
                                lines > wanted ? file : truth));
}

// The further sets that --reference names come behind the one that stands on the line.
std::vector<std::vector<std::string>> references_of(const two_files& files, const std::vector<std::string>& more,
                                                    std::size_t lines) {
  std::vector<std::vector<std::string>> sets;
  for (std::size_t set = 0; set <= more.size(); ++set) {
    const auto& file = set == 0 ? files.truth : more[set - 1];
    sets.push_back(lines_of(file));
    expect_as_many(files.ours, lines, file, sets.back().size());
  }
  return sets;
}

std::string bleu_text(const bleu_score& score) {
  const auto shares = score.precisions();
  const double ratio = score.reference_tokens > 0
                           ? static_cast<double>(score.hypothesis_tokens) / static_cast<double>(score.reference_tokens)
                           : 0;
  return fmt::format("BLEU|{} = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} "
                     "ref_len = {})\n",
                     score.signature(), score.bleu(), shares[0], shares[1], shares[2], shares[3],
                     score.brevity_penalty(), ratio, score.hypothesis_tokens, score.reference_tokens);
}

int score_bleu(std::span<const std::string> arguments) {
  two_files files;
  std::vector<std::string> more;
  std::string tokenizer = "intl";
  bool is_mixed = false;
  apps::command_line line("penstock score bleu", "BLEU of a translation, as `sacrebleu -lc --tokenize intl` gives it.");
  line.positional("HYP", files.ours, "The translation, a sentence a line, detokenized");
  line.positional("REF", files.truth, "The reference, aligned with it");
  line.texts("--reference", more, "FILE", "Another reference (repeatable)");
  line.choice("--tokenize", tokenizer, {"intl", "13a", "none"}, "How lines become tokens");
  line.flag("--mixed-case", is_mixed, "Case counts");
  if (!parse(line, files, "bleu", "HYP", "REF", arguments)) return 0;
  apps::bleu_options options{.tokenizer = apps::bleu_tokenizer::intl, .is_lower_case = !is_mixed};
  for (const auto known : {apps::bleu_tokenizer::thirteen_a, apps::bleu_tokenizer::none})
    if (name_of(known) == tokenizer) options.tokenizer = known;
  const auto lines = lines_of(files.ours);
  apps::say(bleu_text(apps::corpus_bleu(lines, references_of(files, more, lines.size()), options)));
  return 0;
}

int score_captions(std::span<const std::string> arguments) {
  two_files files;
  std::vector<std::string> more;
  apps::command_line line("penstock score captions", "Captions that are exactly right, and BLEU-4.");
  line.positional("HYP", files.ours, "A caption a line");
  line.positional("REF", files.truth, "The reference, aligned with it");
  line.texts("--reference", more, "FILE", "Another reference (repeatable)");
  if (!parse(line, files, "captions", "HYP", "REF", arguments)) return 0;
  const auto lines = lines_of(files.ours);
  const auto score = apps::score_captions(lines, references_of(files, more, lines.size()));
  apps::say(fmt::format("exact = {:.2f}% of {}\n{}", score.exact, lines.size(), bleu_text(score.bleu)));
  return 0;
}

int score_classes(std::span<const std::string> arguments) {
  two_files files;
  apps::command_line line("penstock score classes", "Accuracy and macro F1 of labels.");
  line.positional("SAID", files.ours, "A label a line");
  line.positional("TRUTH", files.truth, "The true labels, aligned with it");
  if (!parse(line, files, "classes", "SAID", "TRUTH", arguments)) return 0;
  const auto said = lines_of(files.ours);
  const auto truth = lines_of(files.truth);
  expect_as_many(files.ours, said.size(), files.truth, truth.size());
  apps::class_tally tally;
  for (std::size_t i = 0; i < said.size(); ++i)
    tally.add(truth[i], said[i]);
  apps::say(fmt::format("accuracy = {:.2f}%, macro F1 = {:.2f}% ({} samples, {} classes)\n", 100 * tally.accuracy(),
                        100 * tally.macro_f1(), tally.samples(), tally.classes()));
  return 0;
}

int score_squad(std::span<const std::string> arguments) {
  two_files files;
  apps::command_line line("penstock score squad",
                          "Exact match and F1 of answers, as SQuAD 1.1's own script gives them.");
  line.positional("ANSWERS", files.ours, "{\"id\": \"text\", ...}");
  line.positional("DEV", files.truth, "The questions, in SQuAD 1.1's form");
  if (!parse(line, files, "squad", "ANSWERS", "DEV", arguments)) return 0;
  const auto score = apps::score_squad(text_of(files.ours), files.ours, text_of(files.truth), files.truth);
  apps::say(fmt::format("exact match = {:.2f}%, F1 = {:.2f}% ({} questions, {} unanswered)\n", score.exact, score.f1,
                        score.questions, score.unanswered));
  return 0;
}

} // namespace

int score_command(std::span<const std::string> arguments) {
  const auto kind = arguments.empty() ? std::string() : arguments.front();
  if (kind == "--help" || kind == "-h") {
    std::fputs(help, stdout);
    return 0;
  }
  const auto rest = arguments.subspan(arguments.empty() ? 0 : 1);
  if (kind == "bleu") return score_bleu(rest);
  if (kind == "captions") return score_captions(rest);
  if (kind == "classes") return score_classes(rest);
  if (kind == "squad") return score_squad(rest);
  throw usage_error("score: found " +
                    (kind.empty() ? std::string("nothing") : in_quotes(kind) + did_you_mean(kind, kinds)) +
                    ", wanted one of " + join(kinds, ", "));
}

} // namespace penstock::tools
