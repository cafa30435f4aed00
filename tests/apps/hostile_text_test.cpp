// Text of others in what a program says: one printable line of bounded length on stderr, whatever came in, wherever.
#include "kernels/text.hpp"
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace penstock::test {
namespace {

constexpr std::size_t longest_line = 500 + 80 + 4; // one_line()'s, and a program's name before it

struct hostile_text {
  std::string name;
  std::string text;
};

struct entry {
  std::string name;
  std::vector<std::string> command;             ///< "TEXT" is replaced, also within a word
  std::map<std::string, std::string> variables; ///< so here
  std::string file;                             ///< the contents of ./file, so here
  bool takes_it = false;                        ///< may end well: then its output is looked at
};

void PrintTo(const entry& e, std::ostream* out) {
  *out << e.name;
}

std::string filled(std::string in, const std::string& text) {
  for (auto at = in.find("TEXT"); at != std::string::npos; at = in.find("TEXT", at + text.size()))
    in.replace(at, 4, text);
  return in;
}

// As a JSON or TOML string would hold it.
std::string escaped_for_json(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += printable(c == '\n' ? "\n" : std::string(1, c));
    else
      out += c;
  }
  return out;
}

class HostileText : public testing::TestWithParam<entry> {};

const std::vector<hostile_text> texts{
    {"lines", "x\nlenet: all is well\r\n"},
    {"escapes", "x\x1b[2J\x1b]0;title\x07\x1b[31m\x08\x7f"},
    {"stray bytes", "x\xff\xfe\xc3(\xed\xa0\x80"},
    {"controls and marks outside ASCII", "x\u009b31m\u202egpj.\u2028y"},
    {"sixty kilobytes",
     [] {
       std::string text;
       while (text.size() < 60'000)
         text += "\u00e4\x01 and so on\n";
       return text;
     }()},
};

TEST_P(HostileText, IsShownHarmlessly) {
  const auto& e = GetParam();
  for (const auto& h : texts) {
    const temporary_folder folder;
    process_options options{.folder = folder.path()};
    for (const auto& [name, value] : e.variables)
      options.variables[name] = filled(value, h.text);
    if (!e.file.empty()) std::ofstream(folder / "file", std::ios::binary) << filled(e.file, escaped_for_json(h.text));
    auto command = e.command;
    for (auto& word : command)
      word = filled(word, h.text);
    const auto result = run_process(command, patience, options);
    ASSERT_EQ(result.ended_by, 0) << h.name;
    EXPECT_THAT(result.exit_code, testing::AnyOf(e.takes_it ? 0 : 2, 1, 2)) << h.name;
    EXPECT_EQ(printable_lines(result.output), result.output) << h.name;
    EXPECT_EQ(printable_lines(result.errors), result.errors) << h.name;
    EXPECT_EQ(result.errors.find('\t'), std::string::npos) << h.name;
    if (result.exit_code == 0) continue;
    ASSERT_EQ(result.error_lines().size(), 1U) << h.name << ": " << result.errors;
    EXPECT_EQ(result.errors.find("exception"), std::string::npos) << h.name << ": " << result.errors;
    EXPECT_LE(result.errors.size(), longest_line) << h.name << ": " << result.errors;
  }
}

std::vector<std::string> tool(std::vector<std::string> arguments) {
  return program("penstock", std::move(arguments));
}

const std::vector<entry> entries{
    {"Option", tiny_lenet({"--TEXT"}), {}, ""},
    {"Word", tiny_lenet({"TEXT"}), {}, ""},
    {"Number", tiny_lenet({"--batch", "TEXT"}), {}, ""},
    {"Choice", tiny_lenet({"--executor", "TEXT"}), {}, ""},
    {"Schedule", tiny_lenet({"--schedule", "TEXT"}), {}, ""},
    {"Credits", tiny_lenet({"--in-flight", "TEXT"}), {}, ""},
    {"Optimizer", tiny_lenet({"--optimizer", "TEXT"}), {}, ""},
    {"RateSchedule", tiny_lenet({"--lr-schedule", "TEXT"}), {}, ""},
    {"RateSetting", tiny_lenet({"--lr-schedule", "step:TEXT=1"}), {}, ""},
    {"Cut", tiny_lenet({"--stages", "2", "--cuts", "TEXT"}), {}, ""},
    {"DataKind", tiny_lenet({"--data", "TEXT"}), {}, ""},
    {"DataFolder", tiny_lenet({"--data", "idx:TEXT"}), {}, ""},
    {"ImageFolder", tiny_lenet({"--data", "imagefolder:TEXT"}), {}, ""},
    {"WeightsName", tiny_lenet({"--weights", "TEXT"}), {}, ""},
    {"CheckpointName", tiny_lenet({"--checkpoint", "TEXT/TEXT", "--resume"}), {}, ""},
    {"TraceName", tiny_lenet({"--trace", "TEXT/TEXT"}), {}, ""},
    {"PlanName", tiny_lenet({"--plan", "TEXT"}), {}, ""},
    {"PlanText", tiny_lenet({"--plan", "file"}), {}, "TEXT"},
    {"PlanKey", tiny_lenet({"--plan", "file"}), {}, R"({"stages": [], "TEXT": 1})"},
    {"PlanLayer", tiny_lenet({"--plan", "file"}), {}, R"({"stages": [{"first_layer": "TEXT", "last_layer": "TEXT"}]})"},
    {"Plugin", tiny_lenet({"--plugin", "TEXT"}), {}, ""},
    {"ReplacedLayer", tiny_lenet({"--replace-layer", "TEXT=TEXT"}), {}, ""},
    {"Master", tiny_lenet({"--rank", "0", "--world-size", "2", "--master", "TEXT"}), {}, ""},
    {"Variable", tiny_lenet(), {{"RANK", "TEXT"}, {"WORLD_SIZE", "2"}}, ""},
    {"SecretFile",
     tiny_lenet({"--rank", "0", "--world-size", "2", "--master", "127.0.0.1:1"}),
     {{"PENSTOCK_SECRET_FILE", "TEXT"}},
     ""},
    {"Command", tool({"TEXT"}), {}, ""},
    {"Model", tool({"models", "TEXT"}), {}, ""},
    {"TrainedModel", tool({"train", "TEXT"}), {}, ""},
    {"ProfiledModel", tool({"profile", "TEXT"}), {}, ""},
    {"ClusterAction", tool({"cluster", "TEXT"}), {}, ""},
    {"ProfileName", tool({"plan", "TEXT", "--workers", "2", "--bandwidth", "1e9"}), {}, ""},
    {"ProfileText", tool({"plan", "file", "--workers", "2", "--bandwidth", "1e9"}), {}, "TEXT"},
    {"ProfileKey", tool({"plan", "file", "--workers", "2", "--bandwidth", "1e9"}), {}, R"({"TEXT": 1})"},
    {"SimulatedPlan", tool({"simulate", "file"}), {}, R"({"stages": 1, "TEXT": "TEXT"})"},
    {"SimulatedPlanName", tool({"simulate", "TEXT"}), {}, ""},
    {"Picture", tool({"schedule", "--stages", "2", "--forward", "TEXT"}), {}, ""},
    {"TraceCommand", tool({"trace", "TEXT"}), {}, ""},
    {"TraceFileName", tool({"trace", "summary", "TEXT"}), {}, ""},
    {"TraceOption", tool({"trace", "timeline", "file", "--from", "TEXT"}), {}, ""},
    {"TraceText", tool({"trace", "summary", "file"}), {}, "TEXT"},
    {"LaunchNumber", tool({"launch", "-np", "TEXT", "--", "true"}), {}, ""},
    {"LaunchHosts", tool({"launch", "--hosts", "TEXT", "--", "true"}), {}, ""},
    {"LaunchedProgram", tool({"launch", "-np", "1", "--", "./TEXT"}), {}, ""},
    {"FolderThatIsTaken", tiny_lenet({"--steps", "1", "--checkpoint", "./TEXT"}), {}, "", true},
};

INSTANTIATE_TEST_SUITE_P(Entries, HostileText, testing::ValuesIn(entries), [](const auto& i) { return i.param.name; });

} // namespace
} // namespace penstock::test
