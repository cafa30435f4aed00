// `penstock launch`, end to end, with shells in the place of an app.
#include "tests/apps/launch_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sched.h>

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

TEST(Launch, TellsEveryRankWhoItIs) {
  const auto result =
      launched({"-np", "3"}, "echo $PENSTOCK_RANK of $PENSTOCK_WORLD_SIZE, here $PENSTOCK_LOCAL_RANK of "
                             "$PENSTOCK_LOCAL_WORLD_SIZE, $PENSTOCK_RESTARTS $OMP_NUM_THREADS");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(lines_of(result.output), UnorderedElementsAre("0 of 3, here 0 of 3, 0 1", "[1] 1 of 3, here 1 of 3, 0 1",
                                                            "[2] 2 of 3, here 2 of 3, 0 1"));
  EXPECT_EQ(result.errors, "");
}

TEST(Launch, PrefixesAllButRankZerosOutput) {
  const auto result = launched({"-np", "2"}, "echo out; echo err $PENSTOCK_RANK >&2; printf 'no end'");
  EXPECT_THAT(lines_of(result.output), UnorderedElementsAre("out", "no end", "[1] out", "[1] no end"));
  EXPECT_THAT(result.error_lines(), UnorderedElementsAre("[0] err 0", "[1] err 1"));
}

TEST(Launch, PrefixesNothingForOneRankOrWhenToldNotTo) {
  EXPECT_EQ(launched({"-np", "1"}, "echo a; echo b >&2").errors, "b\n");
  EXPECT_EQ(launched({"-np", "2", "--tag-output", "no"}, "echo a").output, "a\na\n");
}

TEST(Launch, GivesRanksNothingToReadAndNoForeignDescriptors) {
  const auto result = launched({"-np", "2"}, "cat; ls /proc/self/fd | wc -l");
  // 0, 1, 2, the secret, ls' own folder; rank 0 has the socket as well.
  EXPECT_THAT(lines_of(result.output), UnorderedElementsAre("6", "[1] 5"));
}

TEST(Launch, GivesRankZeroASocketThatListensOnLoopback) {
  const auto result =
      launched({"-np", "2"}, "echo $PENSTOCK_MASTER fd=$PENSTOCK_LISTEN_FD; "
                             "[ -z \"$PENSTOCK_LISTEN_FD\" ] || readlink /proc/self/fd/$PENSTOCK_LISTEN_FD");
  const auto lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 3U) << result.output << result.errors;
  EXPECT_THAT(lines, testing::Contains(AllOf(HasSubstr("[1] 127.0.0.1:"), EndsWith("fd="))));
  EXPECT_THAT(lines, testing::Contains(HasSubstr("socket:")));
}

TEST(Launch, HandsTheSecretOverWithoutShowingIt) {
  const temporary_folder folder;
  const auto script =
      "cat $PENSTOCK_SECRET_FILE > s$PENSTOCK_RANK; stat -Lc %a $PENSTOCK_SECRET_FILE > m$PENSTOCK_RANK; "
      "[ -z \"$PENSTOCK_SECRET\" ] && touch t$PENSTOCK_RANK; exec sleep 100";
  process job(launch({"-np", "2"}, script), {.folder = folder.path(), .variables = {{"PENSTOCK_SECRET", "old"}}});
  ASSERT_TRUE(job.wait_until([&] { return exists(folder / "t0") && exists(folder / "t1"); }, patience));
  const auto secret = read_text(folder / "s0");
  EXPECT_GE(secret.size(), 32U);
  EXPECT_EQ(read_text(folder / "s1"), secret);
  EXPECT_EQ(read_text(folder / "m0"), "400\n");
  EXPECT_THAT(running_with(secret), IsEmpty());
  job.send(SIGTERM);
  EXPECT_EQ(job.finish(patience).exit_code, 143);
}

TEST(Launch, PassesLongLinesWholeAndNeverMixesThem) {
  const auto result =
      launched({"-np", "3"}, "for i in 1 2 3; do head -c 1000000 /dev/zero | tr '\\0' $PENSTOCK_RANK; echo; done");
  const auto lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 9U);
  for (const auto& line : lines) {
    const auto text = line.starts_with("[") ? line.substr(4) : line;
    EXPECT_EQ(text, std::string(1'000'000, text.front()));
  }
}

TEST(Launch, CutsEndlessLinesBetweenCharacters) {
  // Three bytes a character, none of which divides a mebibyte.
  const auto result = launched({"-np", "1"}, "yes '\u20ac' | head -n 700000 | tr -d '\\n'");
  const auto lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 3U);
  std::size_t bytes = 0;
  for (const auto& line : lines) {
    EXPECT_EQ(line.size() % 3, 0U);
    EXPECT_THAT(line, testing::StartsWith("\u20ac"));
    bytes += line.size();
  }
  EXPECT_EQ(bytes, 2'100'000U);
}

TEST(Launch, SurvivesAReaderThatGoesAway) {
  const auto result = run_process(
      {"sh", "-c",
       "'" + program("penstock").front() + "' launch -np 2 -- sh -c 'yes | head -n 100000' | head -n 1; echo"},
      patience);
  EXPECT_THAT(result.errors, HasSubstr("cannot write the ranks' output"));
}

TEST(Launch, EndsWithTheFirstFailureAndSaysTheCauseOnce) {
  const auto result = launched({"-np", "4"}, "[ $PENSTOCK_RANK = 2 ] && kill -9 $$; sleep 0.5; "
                                             "echo 'app: rank 2 was lost' >&2; exit 1");
  EXPECT_EQ(result.exit_code, 137);
  EXPECT_THAT(result.error_lines(), ElementsAre(HasSubstr("] app: rank 2 was lost"),
                                                "penstock launch: rank 2 was killed by signal 9 (Killed)"));
}

TEST(Launch, KeepsEqualLinesThatAreNobodysLast) {
  const auto result = launched({"-np", "2"}, "echo same >&2; sleep 0.3; echo $PENSTOCK_RANK >&2");
  EXPECT_THAT(result.error_lines(), UnorderedElementsAre("[0] same", "[1] same", "[0] 0", "[1] 1"));
  const auto well = launched({"-np", "2"}, "echo same >&2");
  EXPECT_THAT(well.error_lines(), UnorderedElementsAre("[0] same", "[1] same"));
}

TEST(Launch, EndsTheOthersWithinGrace) {
  const auto result = launched({"-np", "3", "--grace", "0.2"}, "[ $PENSTOCK_RANK = 1 ] && exit 7; exec sleep 1000");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.error_lines(), ElementsAre("penstock launch: rank 1 ended with exit code 7"));
}

TEST(Launch, KillsThoseThatDoNotListen) {
  const temporary_folder folder;
  const auto result = launched({"-np", "2", "--grace", "0.2"}, "[ $PENSTOCK_RANK = 1 ] && exit 7; trap '' TERM INT; "
                                                               "sleep 1000 & sleep 1001; : " +
                                                                   mark_of(folder));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(running_with(mark_of(folder)), IsEmpty());
}

TEST(Launch, LeavesTheOthersTimeToEndByThemselves) {
  const auto result =
      launched({"-np", "2"}, "[ $PENSTOCK_RANK = 1 ] && exit 7; trap 'echo asked' TERM; sleep 0.5; echo saved");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.output, "saved\n");
}

// One that is stopped would not hear that it is to end, and cannot end by itself.
TEST(Launch, DoesNotWaitForAStoppedRankOnceTheJobHasFailed) {
  const temporary_folder folder;
  const auto result =
      launched({"-np", "3", "--grace", "3000"},
               "[ $PENSTOCK_RANK = 1 ] && kill -STOP $$; [ $PENSTOCK_RANK = 2 ] && exit 7; : " + mark_of(folder));
  EXPECT_EQ(result.exit_code, 7) << result.errors;
  EXPECT_THAT(running_with(mark_of(folder)), IsEmpty());
}

TEST(Launch, DoesNotWaitForeverForAStoppedRankThatTheOthersNeededNoMore) {
  const temporary_folder folder;
  const auto result = launched({"-np", "3"}, "[ $PENSTOCK_RANK = 1 ] && kill -STOP $$; : " + mark_of(folder));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_THAT(result.error_lines(), ElementsAre("penstock launch: rank 1 was killed by signal 9 (Killed)"));
  EXPECT_THAT(running_with(mark_of(folder)), IsEmpty());
}

TEST(Launch, KillsThoseItHasStartedWhenItCannotStartMore) {
  const temporary_folder folder;
  auto command = launch({"-np", "100"}, "sleep 1000; : " + mark_of(folder));
  command.insert(command.begin(), {"sh", "-c", "ulimit -n 64; exec \"$0\" \"$@\""});
  const auto result = run_process(command, patience);
  EXPECT_EQ(result.exit_code, 1);
  ASSERT_FALSE(result.error_lines().empty());
  EXPECT_THAT(result.error_lines().back(), AllOf(HasSubstr(" of 100: cannot make a pipe"), HasSubstr("Too many open")));
  EXPECT_TRUE(come_to_nothing(mark_of(folder)));
}

TEST(Launch, WarnsOfMoreRanksThanCoresCanBear) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0); // for the launcher, which inherits it
  const auto crowd = launched({"-np", "5"}, "exit 0");
  const auto few = launched({"-np", "4"}, "exit 0");
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(crowd.exit_code, 0);
  EXPECT_EQ(crowd.errors, "penstock launch: warning: 5 ranks on this machine, cores for them: 1\n");
  EXPECT_EQ(few.errors, "");
}

TEST(Launch, KeepsTheCodeOfAUsageErrorAndDoesNotRestartIt) {
  const auto result = launched({"-np", "2", "--restart", "3"}, "echo try; echo 'app: --x: unknown' >&2; exit 2");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(lines_of(result.output).size(), 2U);
  EXPECT_EQ(result.error_lines().size(), 2U) << result.errors;
}

TEST(Launch, KillsWhatARankLeavesBehind) {
  const temporary_folder folder;
  const auto result = launched({"-np", "2"}, "sh -c 'sleep 1000; : " + mark_of(folder) + "' & exit 0");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(come_to_nothing(mark_of(folder)));
}

TEST(LaunchSignals, ReachEachRankOnce) {
  const temporary_folder folder;
  process job(launch({"-np", "2"}, counting), {.folder = folder.path()});
  ASSERT_TRUE(both_have(job, folder, "ready\n"));
  job.send(SIGUSR1);
  ASSERT_TRUE(both_have(job, folder, "ready\nusr\n"));
  job.send(SIGTERM);
  const auto result = job.finish(patience);
  EXPECT_EQ(result.exit_code, 143);
  EXPECT_THAT(result.errors, Not(HasSubstr("penstock")));
  EXPECT_EQ(read_text(folder / "r0"), "ready\nusr\nterm\n");
  EXPECT_EQ(read_text(folder / "r1"), "ready\nusr\nterm\n");
}

TEST(LaunchSignals, ASecondInterruptKills) {
  const temporary_folder folder;
  process job(launch({"-np", "2"}, counting), {.folder = folder.path()});
  ASSERT_TRUE(both_have(job, folder, "ready"));
  job.send(SIGINT);
  ASSERT_TRUE(both_have(job, folder, "int"));
  // A repeat that comes at once counts as the same wish.
  ASSERT_TRUE(job.wait_until(
      [&] {
        job.send(SIGINT);
        return !job.running();
      },
      patience));
  EXPECT_EQ(job.finish(patience).exit_code, 130);
}

struct stop {
  const char* about;
  int signal;
  int exit_code;
};

class LaunchStop : public testing::TestWithParam<stop> {};

TEST_P(LaunchStop, EndsTheJobWithItsCode) {
  const temporary_folder folder;
  process job(launch({"-np", "2"}, "trap 'exit 130' INT; trap 'exit 143' TERM; touch r$PENSTOCK_RANK; "
                                   "while :; do sleep 0.05; done"),
              {.folder = folder.path()});
  ASSERT_TRUE(both_are_there(job, folder));
  job.send(GetParam().signal);
  const auto result = job.finish(patience);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_THAT(result.errors, Not(HasSubstr("penstock"))); // shells speak of what the signal ended inside them
}

TEST_P(LaunchStop, KillsThoseThatDoNotEndInTime) {
  const temporary_folder folder;
  process job(launch({"-np", "2", "--stop-grace", "0.2"},
                     "trap '' INT TERM; touch r$PENSTOCK_RANK; while :; do sleep 0.05; done; : " + mark_of(folder)),
              {.folder = folder.path()});
  ASSERT_TRUE(both_are_there(job, folder));
  job.send(GetParam().signal);
  const auto result = job.finish(patience);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_THAT(result.error_lines(),
              ElementsAre(AllOf(HasSubstr("2 of 2 ranks have not ended within 200 ms"), HasSubstr("--stop-grace"))));
  EXPECT_THAT(running_with(mark_of(folder)), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Signals, LaunchStop,
                         testing::Values(stop{"Interrupt", SIGINT, 130}, stop{"Term", SIGTERM, 143},
                                         stop{"HangUp", SIGHUP, 143}),
                         [](const auto& each) { return each.param.about; });

TEST(LaunchSignals, GiveAWrappedProgramTimeToEnd) {
  const temporary_folder folder;
  // The outer shell dies of the signal at once; the inner one has something to save, for longer than --grace.
  const std::string inner = "trap \"sleep 0.3; echo saved > s\\$PENSTOCK_RANK; exit 143\" TERM; touch r$PENSTOCK_RANK; "
                            "while :; do sleep 0.05; done";
  process job(launch({"-np", "2", "--grace", "0.1"}, "sh -c '" + inner + "'; :"), {.folder = folder.path()});
  ASSERT_TRUE(both_are_there(job, folder));
  job.send(SIGTERM);
  EXPECT_EQ(job.finish(patience).exit_code, 143);
  EXPECT_EQ(read_text(folder / "s0"), "saved\n");
  EXPECT_EQ(read_text(folder / "s1"), "saved\n");
}

TEST(LaunchSignals, AKilledLauncherLeavesNobody) {
  const temporary_folder folder;
  process job(
      launch({"-np", "3"},
             "touch r$PENSTOCK_RANK; sh -c 'trap \"\" TERM INT HUP; sleep 1000; :' & sleep 1001; : " + mark_of(folder)),
      {.folder = folder.path()});
  ASSERT_TRUE(job.wait_until([&] { return exists(folder / "r0") && exists(folder / "r1") && exists(folder / "r2"); },
                             patience));
  EXPECT_THAT(running_with(mark_of(folder)), Not(IsEmpty()));
  job.send(SIGKILL);
  EXPECT_EQ(job.finish(patience).ended_by, SIGKILL);
  EXPECT_TRUE(come_to_nothing(mark_of(folder)));
}

TEST(LaunchRestart, StartsAgainAsOftenAsAskedWithANewSecret) {
  const temporary_folder folder;
  const auto result = launched({"-np", "2", "--restart", "2", "--grace", "0.1"},
                               "cat $PENSTOCK_SECRET_FILE > s$PENSTOCK_RESTARTS.$PENSTOCK_RANK; "
                               "[ $PENSTOCK_RANK = 1 ] && exit 5; exec sleep 1000",
                               {.folder = folder.path()});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.error_lines(),
              ElementsAre("penstock launch: rank 1 ended with exit code 5; starting again, 1 of 2",
                          "penstock launch: rank 1 ended with exit code 5; starting again, 2 of 2",
                          "penstock launch: rank 1 ended with exit code 5"));
  EXPECT_NE(read_text(folder / "s0.1"), read_text(folder / "s1.1"));
  EXPECT_NE(read_text(folder / "s1.1"), read_text(folder / "s2.1"));
}

TEST(LaunchRestart, EndsWellWhenALaterTryDoes) {
  const auto result = launched({"-np", "2", "--restart", "5"}, "[ $PENSTOCK_RESTARTS = 2 ] || kill -9 $$");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.error_lines().size(), 2U) << result.errors;
}

TEST(LaunchRestart, DoesNotGoAgainstTheUser) {
  const temporary_folder folder;
  process job(launch({"-np", "2", "--restart", "5"}, counting), {.folder = folder.path()});
  ASSERT_TRUE(both_have(job, folder, "ready"));
  job.send(SIGTERM);
  EXPECT_EQ(job.finish(patience).exit_code, 143);
  EXPECT_EQ(read_text(folder / "r0"), "ready\nterm\n");
}

TEST(LaunchShrink, GoesOnWithoutALostRank) {
  const auto result = launched({"-np", "3", "--on-loss", "shrink", "--grace", "0"},
                               "[ $PENSTOCK_RANK = 1 ] && kill -9 $$; sleep 0.5; echo $PENSTOCK_ON_LOSS");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.output), UnorderedElementsAre("shrink", "[2] shrink"));
  EXPECT_THAT(result.error_lines(),
              ElementsAre("penstock launch: rank 1 was killed by signal 9 (Killed); the others go on"));
}

TEST(LaunchShrink, LeavesAStoppedRankBehind) {
  const temporary_folder folder;
  const auto result =
      launched({"-np", "2", "--on-loss", "shrink"}, "[ $PENSTOCK_RANK = 1 ] && kill -STOP $$; : " + mark_of(folder));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(running_with(mark_of(folder)), IsEmpty());
}

TEST(LaunchShrink, EndsWithRankZero) {
  const auto result = launched({"-np", "2", "--on-loss", "shrink", "--grace", "0"},
                               "[ $PENSTOCK_RANK = 0 ] && exit 9; exec sleep 1000");
  EXPECT_EQ(result.exit_code, 9);
}

TEST(LaunchTerminal, LetsRankZeroDraw) {
  const auto result = launched({"-np", "2"}, "test -t 1 && echo terminal $PENSTOCK_RANK || echo none $PENSTOCK_RANK",
                               {.terminal = true});
  EXPECT_THAT(result.output, AllOf(HasSubstr("terminal 0"), HasSubstr("[1] none 1")));
}

struct refusal {
  const char* about;
  std::vector<std::string> arguments;
  const char* says;
};

class RefusedLaunch : public testing::TestWithParam<refusal> {};

TEST_P(RefusedLaunch, IsAUsageErrorInOneLine) {
  auto arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), "launch");
  const auto result = run_process(program("penstock", arguments), patience);
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_EQ(result.output, "");
  ASSERT_EQ(result.error_lines().size(), 1U) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Launch, RefusedLaunch,
    testing::Values(refusal{"Nothing", {}, "no '--'"}, refusal{"NoDashes", {"-np", "2", "true"}, "no '--'"},
                    refusal{"NoProgram", {"-np", "2", "--"}, "nothing behind '--'"},
                    refusal{"NoRanks", {"-np", "0", "--", "true"}, "--np: found '0'"},
                    refusal{"NoNumber", {"--", "true"}, "neither -np N nor --hosts LIST"},
                    refusal{"ManyRanks", {"-np", "100000", "--", "true"}, "--np: found '100000'"},
                    refusal{"Letters", {"-np", "two", "--", "true"}, "'two'"},
                    refusal{"Missing", {"-np", "1", "--", "./nowhere"}, "./nowhere"},
                    refusal{"NotOnPath", {"-np", "1", "--", "penstock-no-such-program"}, "PATH"},
                    refusal{"NotExecutable", {"-np", "1", "--", "/etc/passwd"}, "may be run"},
                    refusal{"Folder", {"-np", "1", "--", "/tmp"}, "may be run"},
                    refusal{"FewSlots", {"-np", "3", "--hosts", "localhost:2", "--", "true"}, "found 2 slots"},
                    refusal{"NoSlots", {"--hosts", "a:0", "--", "true"}, "'a:0'"},
                    refusal{"EmptyHost", {"--hosts", "a,,b", "--", "true"}, "host[:slots]"},
                    refusal{"HostAsOption", {"--hosts", "-oProxyCommand=x", "--", "true"}, "--hosts"},
                    refusal{"LoopbackFirst", {"--hosts", "localhost,other", "--", "true"}, "rank 0"},
                    refusal{"NoSsh", {"--hosts", "a", "--ssh", " ", "--", "true"}, "--ssh"},
                    refusal{"MissingSsh", {"--hosts", "a", "--ssh", "/no/ssh", "--", "true"}, "/no/ssh"},
                    refusal{"Loss", {"-np", "1", "--on-loss", "cry", "--", "true"}, "end or shrink"},
                    refusal{"Tag", {"-np", "1", "--tag-output", "maybe", "--", "true"}, "yes or no"},
                    refusal{"Port", {"-np", "1", "--port", "65536", "--", "true"}, "--port"},
                    refusal{"Grace", {"-np", "1", "--grace", "-1", "--", "true"}, "--grace"},
                    refusal{"StopGrace", {"-np", "1", "--stop-grace", "x", "--", "true"}, "--stop-grace"},
                    refusal{"Unknown", {"-np", "1", "--host", "a", "--", "true"}, "--hosts"}),
    [](const auto& each) { return each.param.about; });

TEST(LaunchPort, InUseIsAFailure) {
  const temporary_folder folder;
  process first(launch({"-np", "1"}, "echo $PENSTOCK_MASTER > m; exec sleep 1000"), {.folder = folder.path()});
  ASSERT_TRUE(first.wait_for_text(folder / "m", "\n", patience));
  const auto address = lines_of(read_text(folder / "m")).at(0);
  const auto result = launched({"-np", "1", "--port", address.substr(address.find(':') + 1)}, "true");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, AllOf(HasSubstr(address), HasSubstr("in use")));
}

TEST(LaunchHelp, IsPrintedWithoutAProgram) {
  const auto result = run_process(program("penstock", {"launch", "--help"}), patience);
  EXPECT_EQ(result.exit_code, 0);
  for (const char* option :
       {"-np", "--hosts", "--ssh", "--restart", "--on-loss", "--grace", "--stop-grace", "--port", "--tag-output"})
    EXPECT_THAT(result.output, HasSubstr(option));
}

} // namespace
} // namespace penstock::test
