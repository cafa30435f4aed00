// The habit: every command of README.md, and every one that a program says to type next, does what it says.
#include "tests/apps/programs.hpp"
#include "tests/apps/readme_commands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

using command_in_place = std::pair<std::string, std::string>; // section, text

const std::string& readme() {
  static const std::string text = read_text(SOURCES "/README.md");
  return text;
}

std::vector<command_in_place> table_entries() {
  std::vector<command_in_place> entries;
  for (const auto& row : readme_commands())
    entries.emplace_back(row.section, row.text);
  return entries;
}

TEST(Readme, HasARowForEachOfItsCommandsAndNoOther) {
  EXPECT_THAT(commands_of(readme()), testing::ElementsAreArray(table_entries()));
}

TEST(Readme, CommandsAreReadFromBlocksAndSpans) {
  const auto commands =
      commands_of("# One\n\n    tools/a  # why\n    build/bin/b --c d   # e\n\nText `build/bin/f` and "
                  "`penstock plan` and `penstock plan\nx.json`, `--option`.\n\n## Two\n\n"
                  "| `bench_g 2` | `tools/packages.txt` |\n");
  EXPECT_THAT(commands, testing::ElementsAre(
                            command_in_place{"One", "tools/a"}, command_in_place{"One", "build/bin/b --c d"},
                            command_in_place{"One", "build/bin/f"}, command_in_place{"One", "penstock plan x.json"},
                            command_in_place{"Two", "bench_g 2"}));
}

void write_program(const fs::path& file, const std::string& text) {
  testing_support::write_file(file, "#!/bin/sh\n" + text);
  fs::permissions(file, fs::perms::owner_all);
}

// A clone that has been built, as far as the commands see it: the programs are the build's, the rest is the sources',
// and who is not on every machine (ssh to other hosts, torchrun) or takes minutes (a build) is played by a script.
class Clone {
public:
  Clone() {
    fs::create_directory(folder_ / "build");
    fs::create_directory_symlink(PROGRAMS, folder_ / "build/bin");
    fs::create_directory_symlink(SOURCES "/tests", folder_ / "tests");
    fs::create_directory(folder_ / "tools");
    fs::copy_file(SOURCES "/tools/quickstart", folder_ / "tools/quickstart");
    fs::create_directory(folder_ / "stubs");
    fs::create_symlink(SOURCES "/tools/get_data", folder_ / "tools/get_data");
    write_program(folder_ / "tools/install-packages", "exit 0\n");
    write_program(folder_ / "stubs/cmake", "exit 0\n");
    write_program(folder_ / "stubs/ninja", "printf '%s\\n' \"$@\" > '" + asked_to_build().string() + "'\n");
    // OpenSSH's options, the host, and what its shell is to run.
    write_program(folder_ / "stubs/ssh", "while [ \"$1\" = -o ]; do shift 2; done\nshift\nexec sh -c \"$*\"\n");
    write_program(
        folder_ / "stubs/torchrun",
        "n=$2; shift 3\nexport WORLD_SIZE=$n LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$STUB_PORT\n"
        "i=$n\nwhile [ $i -gt 1 ]; do i=$((i - 1)); RANK=$i LOCAL_RANK=$i \"$@\" & done\n"
        "RANK=0 LOCAL_RANK=0 \"$@\"\ncode=$?\nwait\nexit $code\n");
  }

  /// What ninja was last told, a word a line.
  fs::path asked_to_build() const { return folder_ / "asked_to_build"; }

  process_result run(const std::string& command) const {
    const char* path = std::getenv("PATH");
    const auto port = std::to_string(20000 + ::getpid() % 20000);
    return run_process(
        {"/bin/sh", "-c", command}, patience,
        {.folder = folder_.path(),
         .variables = {{"PATH", (folder_ / "stubs").string() + ":" PROGRAMS ":" + (path != nullptr ? path : "")},
                       {"STUB_PORT", port},
                       {"HOME", folder_.path().string()}, // plans are kept there
                       {"XDG_CACHE_HOME", ""},
                       {"PENSTOCK_SECRET", "a secret of this test alone"}}});
  }

private:
  temporary_folder folder_;
};

std::string as_run(const readme_command& row) {
  auto text = row.text;
  for (const auto& [from, to] : row.replace) {
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << row.text;
    if (at != std::string::npos) text.replace(at, from.size(), to);
  }
  return row.add.empty() ? text : text + " " + row.add;
}

// What a program says to type next, among its lines: behind words and a colon, from the program's name to the line's
// end.
std::vector<std::string> next_commands(const std::string& output) {
  static const std::regex form(R"(^\s*(?:[a-z][^:]*: +)((?:build/bin/|tools/|penstock )\S.*)$)");
  std::vector<std::string> commands;
  for (const auto& line : lines_of(output))
    if (std::smatch found; std::regex_match(line, found, form)) commands.push_back(found[1]);
  return commands;
}

// "--plan FILE repeats this run", as --plan auto says, put into its command; "" where nothing says so.
std::string repeated(std::string command, const std::string& output) {
  static const std::regex form(R"((--plan \S+) repeats this run)");
  std::smatch found;
  if (!std::regex_search(output, found, form)) return "";
  command = std::regex_replace(command, std::regex(" --save-plan \\S+"), "");
  return std::regex_replace(command, std::regex("--plan auto\\S*"), found[1].str());
}

bool has_program(const std::string& command) {
  const std::string folder = "build/bin/";
  if (!command.starts_with(folder)) return true;
  const auto name = command.substr(folder.size(), command.find(' ') - folder.size());
  return fs::exists(fs::path(PROGRAMS) / name);
}

class ReadmeSection : public testing::TestWithParam<std::string> {};

TEST_P(ReadmeSection, RunsFromTopToBottom) {
  const Clone clone;
  for (const auto& command : prelude_of(GetParam()))
    EXPECT_EQ(clone.run(command).exit_code, 0) << command;
  for (const auto& row : readme_commands()) {
    if (row.section != GetParam() || !row.why_not.empty()) continue;
    if (!has_program(row.text)) {
      GTEST_LOG_(INFO) << "not built: " << row.text;
      continue;
    }
    const auto command = as_run(row);
    const auto result = clone.run(command);
    EXPECT_EQ(result.exit_code, row.exit_code) << command << "\n" << result.output << result.errors;
    EXPECT_THAT(result.output, testing::HasSubstr(row.line)) << command << "\n" << result.errors;
    if (const auto again = repeated(command, result.output); !again.empty()) {
      const auto second = clone.run(again);
      EXPECT_EQ(second.exit_code, 0) << again << "\n" << second.errors;
      EXPECT_THAT(second.output, testing::HasSubstr("done: ")) << again;
    }
  }
}

std::vector<std::string> sections_that_run() {
  std::vector<std::string> sections;
  for (const auto& row : readme_commands())
    if (row.why_not.empty() && std::find(sections.begin(), sections.end(), row.section) == sections.end())
      sections.push_back(row.section);
  return sections;
}

std::string camel_case(const std::string& text) {
  std::string name;
  bool begins = true;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      begins = false;
    } else {
      begins = true;
    }
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ReadmeSection, testing::ValuesIn(sections_that_run()),
                         [](const auto& of) { return camel_case(of.param); });

// Each is a skip with its reason, so that what is not run is counted.
class ReadmeCommand : public testing::TestWithParam<int> {};

TEST_P(ReadmeCommand, IsNotRunHereForAReason) {
  const auto& row = readme_commands()[static_cast<std::size_t>(GetParam())];
  if (row.text.starts_with("cmake --workflow --preset ")) {
    EXPECT_THAT(read_text(SOURCES "/CMakePresets.json"), testing::HasSubstr("\"" + row.text.substr(26) + "\""));
  }
  if (row.text.starts_with("tools/") || row.text.starts_with("tests/")) {
    EXPECT_TRUE(fs::exists(fs::path(SOURCES) / row.text.substr(0, row.text.find(' ')))) << row.text;
  }
  GTEST_SKIP() << row.text << ": " << row.why_not;
}

std::vector<int> rows_not_run() {
  std::vector<int> rows;
  for (std::size_t i = 0; i < readme_commands().size(); ++i)
    if (!readme_commands()[i].why_not.empty()) rows.push_back(static_cast<int>(i));
  return rows;
}

INSTANTIATE_TEST_SUITE_P(All, ReadmeCommand, testing::ValuesIn(rows_not_run()));

// What quickstart says to type next, on its own outputs.
TEST(Quickstart, EveryCommandThatItSaysToTypeNextRuns) {
  const Clone clone;
  const auto done = clone.run("tools/quickstart --epochs 1 --steps 8 --eval-batch 1000");
  ASSERT_EQ(done.exit_code, 0) << done.output << done.errors;
  const auto commands = next_commands(done.output);
  EXPECT_THAT(commands, testing::Contains(testing::HasSubstr("penstock trace summary")));
  EXPECT_GE(commands.size(), 4U) << done.output;
  const auto built = testing_support::read_file(clone.asked_to_build());
  for (const auto& command : commands) {
    if (command == "tools/test") continue; // it runs this test
    const auto program =
        command.substr(std::string("build/bin/").size(), command.find(' ') - std::string("build/bin/").size());
    EXPECT_THAT(built, testing::HasSubstr("\n" + program + "\n")) << command << "\nof a program that is not built";
    const bool trains = command.find(" --data ") != std::string::npos;
    const auto result = clone.run(command + (trains ? " --width 0.125 --batch 8 --steps 2 --eval-every -1" : ""));
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.errors;
    EXPECT_THAT(result.output, testing::HasSubstr(trains ? "done: 2 steps" : "stage")) << command;
  }
}

} // namespace
} // namespace penstock::test
