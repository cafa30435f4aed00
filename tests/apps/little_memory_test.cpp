// Programs under a small limit of address space: they do their work or end soon, with one line that says why.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

namespace penstock::test {
namespace {

struct little_memory {
  std::string name;
  std::vector<std::string> command;
  std::size_t most_lines = 1; ///< on stderr, when it fails: one of each rank, and one of the launcher
};

void PrintTo(const little_memory& l, std::ostream* out) {
  *out << l.name;
}

std::vector<std::string> under_limit(int kilobytes, const std::vector<std::string>& command) {
  std::vector<std::string> words{"/bin/sh", "-c", "ulimit -v " + std::to_string(kilobytes) + "; exec \"$@\"", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

class LittleMemory : public testing::TestWithParam<little_memory> {};

// From too little to start with, through all that fails on the way, to enough.
TEST_P(LittleMemory, EndsInOrder) {
  if (is_sanitized) GTEST_SKIP() << "sanitizers take more address space than these limits (ulimit -v)";
  for (const int kilobytes : {100'000, 110'000, 125'000, 150'000, 175'000, 250'000, 325'000, 400'000, 600'000}) {
    const temporary_folder folder;
    const auto result = run_process(under_limit(kilobytes, GetParam().command), patience, {.folder = folder.path()});
    ASSERT_FALSE(result.timed_out) << kilobytes;
    ASSERT_THAT(result.exit_code, testing::AnyOf(0, 1)) << kilobytes << " " << result.ended_by << result.errors;
    if (result.exit_code == 0) continue;
    ASSERT_FALSE(result.error_lines().empty()) << kilobytes;
    ASSERT_LE(result.error_lines().size(), GetParam().most_lines) << kilobytes << " " << result.errors;
    EXPECT_THAT(result.errors, testing::AnyOf(testing::HasSubstr("out of memory"), testing::HasSubstr("[ucx] cannot")))
        << kilobytes;
  }
}

const std::vector<little_memory> programs{
    {"OneStage", tiny_lenet({"--steps", "3"})},
    {"StagesCheckpointAndTrace",
     tiny_lenet({"--steps", "3", "--replicas", "2,1", "--checkpoint", "ck", "--trace", "t.pftrace"})},
    {"Evaluation", tiny_lenet({"--eval-only"})},
    {"Profile", program("penstock", {"profile", "lenet", "--batch", "2", "--samples", "2", "--workers", "1", "--warmup",
                                     "0", "--repeats", "3"})},
    {"Launch",
     [] {
       const auto rank = tiny_lenet({"--steps", "3", "--stages", "2"});
       auto command = program("penstock", {"launch", "-np", "2", "--"});
       command.insert(command.end(), rank.begin(), rank.end());
       return command;
     }(),
     3},
};

INSTANTIATE_TEST_SUITE_P(Programs, LittleMemory, testing::ValuesIn(programs),
                         [](const auto& i) { return i.param.name; });

} // namespace
} // namespace penstock::test
