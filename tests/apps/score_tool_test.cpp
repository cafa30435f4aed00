// `penstock score`: what it prints, and what it says of files that do not fit.
#include "tests/apps/programs.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct score_files {
  testing_support::temporary_folder folder;

  std::string file(const std::string& name, const std::string& text) const {
    testing_support::write_file(folder / name, text);
    return (folder / name).string();
  }
  process_result score(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "score");
    return run_process(program("penstock", std::move(arguments)), patience);
  }
};

TEST(PenstockScore, TellsBleuWithItsSignature) {
  const score_files at;
  const auto result = at.score({"bleu", at.file("hyp", "The cat sat on the mat.\r\nA dog runs fast today!\n"),
                                at.file("ref", "the cat sat on a mat.\na dog runs fast now!\n")});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "BLEU|nrefs:1|case:lc|eff:no|tok:intl|smooth:exp = 51.14 84.6/63.6/44.4/28.6 (BP = 1.000 "
                           "ratio = 1.000 hyp_len = 13 ref_len = 13)\n");
}

TEST(PenstockScore, TellsCaptionsClassesAndAnswers) {
  const score_files at;
  const auto captions = at.score({"captions", at.file("h", "a bag moves up\na bag\n"),
                                  at.file("r", "A bag moves up\na top\n"), "--reference", at.file("r2", "x\ny\n")});
  EXPECT_THAT(captions.output, StartsWith("exact = 50.00% of 2\nBLEU|nrefs:2|case:lc|eff:no|tok:none"));
  const auto classes = at.score({"classes", at.file("s", "a\nb\nb\na\n"), at.file("t", "a\nb\na\na\n")});
  EXPECT_EQ(classes.output, "accuracy = 75.00%, macro F1 = 73.33% (4 samples, 2 classes)\n");
  const auto squad =
      at.score({"squad", at.file("a", R"({"1": "The red house!"})"),
                at.file("d", R"({"data": [{"paragraphs": [{"qas": [{"id": "1", "answers": [{"text": "red house"}]},
                                {"id": "2", "answers": [{"text": "x"}]}]}]}]})")});
  EXPECT_EQ(squad.output, "exact match = 50.00%, F1 = 50.00% (2 questions, 1 unanswered)\n") << squad.errors;
}

TEST(PenstockScore, FilesThatDoNotFitAreNamedInOneLine) {
  const score_files at;
  const auto hypotheses = at.file("hyp", "a\nb\n");
  for (const auto& [arguments, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"bleu", hypotheses, at.file("ref", "a\nb\nc\n")}, "found 2 lines, wanted 3 as in "},
           {{"bleu", hypotheses, at.file("bad", "a\nb\xff\n")}, "line 2: byte 2 is no UTF-8"},
           {{"bleu", hypotheses, at.file("none", "")}, "found no lines, wanted at least one"},
           {{"bleu", hypotheses}, "wanted two files, penstock score bleu HYP REF"},
           {{"bleu", hypotheses, hypotheses, "--tokenize", "zh"}, "--tokenize"},
           {{"blue", hypotheses, hypotheses}, "found 'blue' (did you mean 'bleu'?), wanted one of"},
           {{}, "found nothing, wanted one of bleu, captions, classes, squad"},
           {{"squad", hypotheses, hypotheses}, "it is no JSON"}}) {
    const auto result = at.score(arguments);
    EXPECT_EQ(result.exit_code, 2) << says;
    ASSERT_EQ(result.error_lines().size(), 1U) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(says));
  }
  EXPECT_EQ(at.score({"bleu", hypotheses, (at.folder / "missing").string()}).exit_code, 1);
}

} // namespace
} // namespace penstock::test
