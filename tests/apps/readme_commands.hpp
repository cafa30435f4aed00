// What a user reads and types: the commands of README.md, and what this test makes of each.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace penstock::test {

struct readme_command {
  std::string section; ///< heading that it stands under
  std::string text;    ///< as it stands there, without its comment
  /// A word or more to put in place of another: what README leaves open, or what only other hosts have.
  std::vector<std::pair<std::string, std::string>> replace;
  std::string add;     ///< options behind it that make it short
  std::string line;    ///< a line of its output holds this
  int exit_code = 0;   ///< wanted
  std::string why_not; ///< not run here for this reason; "": it is run
};

/// In README's order. A command that stands in several places has as many rows.
const std::vector<readme_command>& readme_commands();

/// Commands to run before those of a section, which take their files for granted.
std::vector<std::string> prelude_of(const std::string& section);

/// The commands of a text in Markdown, in order, with their sections: lines of indented blocks, and spans of code that
/// begin with a program and go on.
std::vector<std::pair<std::string, std::string>> commands_of(const std::string& markdown);

} // namespace penstock::test
