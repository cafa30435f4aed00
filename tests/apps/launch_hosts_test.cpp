// `penstock launch --hosts`, with a script in the place of ssh.
#include "tests/apps/launch_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sys/stat.h>

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

// Stands in for ssh: another "host" is this one, and what ssh would run is kept.
class LaunchHosts : public testing::Test {
protected:
  void SetUp() override {
    testing_support::write_file(folder_ / "ssh", "#!/bin/sh\nhost=$1; shift\nprintf '%s\\n' \"$*\" > " +
                                                     (folder_ / "ran.").string() +
                                                     "$host.$$\nHOST=$host exec sh -c \"$*\"\n");
    ::chmod((folder_ / "ssh").c_str(), 0755);
  }
  std::vector<std::string> options(const std::string& hosts) const {
    return {"--hosts", hosts, "--grace", "0.2", "--ssh", (folder_ / "ssh").string()};
  }
  temporary_folder folder_;
};

TEST_F(LaunchHosts, FillsThemInOrder) {
  const auto result = launched(options("ha:2,hb"),
                               "echo $HOST $PENSTOCK_RANK $PENSTOCK_LOCAL_RANK "
                               "$PENSTOCK_LOCAL_WORLD_SIZE $PENSTOCK_HOSTS ${PENSTOCK_MASTER%:*}; pwd",
                               {.folder = folder_.path()});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const auto folder = std::filesystem::canonical(folder_.path()).string();
  EXPECT_THAT(lines_of(result.output), UnorderedElementsAre("ha 0 0 2 1 ha", "[1] ha 1 1 2 1 ha", "[2] hb 2 0 1 1 ha",
                                                            folder, "[1] " + folder, "[2] " + folder));
}

TEST_F(LaunchHosts, PassesArgumentsAsTheyAre) {
  auto command = options("ha");
  command.insert(command.begin(), "launch");
  command.insert(command.end(), {"--", "printf", "<%s>\\n", "a b", "it's", "$HOME `id` \"x\"", "*", "", "-n", "A=B"});
  const auto result = run_process(program("penstock", command), patience);
  EXPECT_EQ(result.output, "<a b>\n<it's>\n<$HOME `id` \"x\">\n<*>\n<>\n<-n>\n<A=B>\n");
}

TEST_F(LaunchHosts, KeepsTheSecretOffTheCommandLine) {
  const auto result = launched(options("ha,hb"), "echo $PENSTOCK_SECRET > s$PENSTOCK_RANK", {.folder = folder_.path()});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const auto secret = lines_of(read_text(folder_ / "s0")).at(0);
  EXPECT_GE(secret.size(), 32U);
  EXPECT_EQ(read_text(folder_ / "s1"), secret + "\n");
  for (const auto& name : folder_.names()) {
    if (!name.starts_with("ran.")) continue;
    EXPECT_THAT(read_text(folder_ / name), Not(HasSubstr(secret)));
  }
}

TEST_F(LaunchHosts, PassesCodesAndSignalsThrough) {
  const auto code = launched(options("ha,hb"), "[ $PENSTOCK_RANK = 1 ] && exit 6; sleep 1000");
  EXPECT_EQ(code.exit_code, 6);
  EXPECT_THAT(code.error_lines(), ElementsAre("penstock launch: rank 1 on hb ended with exit code 6"));
  const auto killed = launched(options("ha,hb"), "[ $PENSTOCK_RANK = 1 ] && kill -9 $$; sleep 1000");
  EXPECT_EQ(killed.exit_code, 137);
  EXPECT_THAT(killed.error_lines(), ElementsAre("penstock launch: rank 1 on hb was killed by signal 9 (Killed)"));
}

TEST_F(LaunchHosts, PassesSignalsOn) {
  process job(launch(options("ha,hb"), counting), {.folder = folder_.path()});
  ASSERT_TRUE(both_have(job, folder_, "ready"));
  job.send(SIGINT);
  ASSERT_TRUE(both_have(job, folder_, "int"));
  job.send(SIGUSR1);
  ASSERT_TRUE(both_have(job, folder_, "usr"));
  EXPECT_EQ(read_text(folder_ / "r0"), "ready\nint\nusr\n");
  job.send(SIGTERM);
  const auto result = job.finish(patience);
  EXPECT_EQ(result.exit_code, 130) << result.errors;
}

TEST_F(LaunchHosts, ARankDiesWithItsConnection) {
  process job(launch(options("ha,hb"), "touch r$PENSTOCK_RANK; trap '' TERM HUP; sleep 1000; : " + mark_of(folder_)),
              {.folder = folder_.path()});
  ASSERT_TRUE(both_are_there(job, folder_));
  job.send(SIGKILL);
  job.finish(patience);
  EXPECT_TRUE(come_to_nothing(": " + mark_of(folder_)));
}

TEST_F(LaunchHosts, SaysThatTheConnectionFailed) {
  testing_support::write_file(folder_ / "ssh", "#!/bin/sh\necho no route >&2; exit 255\n");
  ::chmod((folder_ / "ssh").c_str(), 0755);
  const auto result = launched(options("ha"), "true");
  EXPECT_EQ(result.exit_code, 255);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("no route"), HasSubstr("rank 0 on ha is lost: ssh")));
}

} // namespace
} // namespace penstock::test
