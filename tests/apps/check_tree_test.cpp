// tools/check_tree.py on trees made wrong in one place each.
#include "tests/support/process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace penstock::test {
namespace {

using testing::HasSubstr;

class CheckTree : public testing::Test {
protected:
  CheckTree() {
    write("kernels/CMakeLists.txt", "# kernels\nadd_library(kernels a.cpp)\n");
    write("kernels/a.hpp", "// Why a exists.\n#pragma once\n");
    write("kernels/a.cpp", "// How a works.\n#include \"kernels/a.hpp\"\n");
  }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }

  process_result check() {
    return run_process({PYTHON, CHECK_TREE, "--root", folder_.path().string()}, std::chrono::seconds(60));
  }

  void expect_violation(const std::string& words) {
    const auto result = check();
    EXPECT_EQ(result.exit_code, 1) << result.errors;
    EXPECT_THAT(result.output, HasSubstr(words));
  }

  temporary_folder folder_;
};

TEST_F(CheckTree, PassesATreeInOrder) {
  const auto result = check();
  EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
}

TEST_F(CheckTree, FindsAnIncludeOfAHigherFloor) {
  write("planner/p.hpp", "// Why.\n#pragma once\n#include \"kernels/a.hpp\"\n");
  expect_violation("planner/p.hpp:3: planner/ must not include \"kernels/a.hpp\"");
}

TEST_F(CheckTree, FindsAVendorHeaderOutOfItsFolder) {
  write("kernels/a.cpp", "// How.\n#include <caf/all.hpp>\n");
  expect_violation("kernels/a.cpp:2: <caf/all.hpp> belongs in");
}

TEST_F(CheckTree, FindsCafBehindAnotherHeader) {
  write("actors/m.hpp", "// Why.\n#pragma once\n#include <caf/all.hpp>\n");
  write("actors/policy/CMakeLists.txt", "# policy\nadd_library(policy q.cpp)\n");
  write("actors/policy/q.cpp", "// How.\n#include \"actors/m.hpp\"\n");
  expect_violation("actors/policy/q.cpp:1: reaches CAF through actors/m.hpp:3");
}

TEST_F(CheckTree, FindsAFileThatDoesNotSayWhyItExists) {
  write("kernels/a.cpp", "#include \"kernels/a.hpp\"\n");
  expect_violation("kernels/a.cpp:1: the first line");
}

TEST_F(CheckTree, FindsFilesThatGrewTooLong) {
  std::string text = "// Why.\n#pragma once\n";
  for (int i = 0; i < 300; ++i)
    text += "int x();\n";
  write("kernels/a.hpp", text);
  expect_violation("kernels/a.hpp:1: 302 lines, wanted at most 300");
}

TEST_F(CheckTree, FindsSourcesThatAreListedButMissingAndTheReverse) {
  write("kernels/CMakeLists.txt", "# kernels\nadd_library(kernels gone.cpp)\n");
  expect_violation("kernels/CMakeLists.txt:2: lists gone.cpp, which does not exist");
  expect_violation("kernels/a.cpp:1: no CMake file lists it");
}

TEST_F(CheckTree, FindsAnIncludeThatIsNotThere) {
  write("kernels/a.cpp", "// How.\n#include \"a.hpp\"\n");
  expect_violation("kernels/a.cpp:2: \"a.hpp\" is not found from the repository's root");
}

} // namespace
} // namespace penstock::test
