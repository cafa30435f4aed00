// The lock of a checkpoint folder: one run at a time, whatever became of the one before.
#include "actors/checkpoint/checkpoint_lock.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::actors {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
using testing_support::read_file;
using testing_support::temporary_folder;
using testing_support::write_file;

TEST(CheckpointLock, NamesItsHolderToWhoeverElseWantsIt) {
  const temporary_folder folder;
  const checkpoint_lock first(folder.path());
  EXPECT_THAT([&] { checkpoint_lock second(folder.path()); },
              ThrowsMessage<error>(AllOf(HasSubstr(folder.path().string()), HasSubstr("in use by"),
                                         HasSubstr("process " + std::to_string(::getpid())), Not(HasSubstr("\n")))));
}

TEST(CheckpointLock, IsFreeAgainAndLeavesNothingWhenItsHolderLeaves) {
  const temporary_folder folder;
  { const checkpoint_lock first(folder / "a/b"); }
  EXPECT_TRUE(folder.empty());
  fs::create_directory(folder / "a");
  { const checkpoint_lock second(folder / "a"); }
  EXPECT_TRUE(fs::is_empty(folder / "a"));
}

TEST(CheckpointLock, ALinkToTheFolderIsTheSameFolder) {
  const temporary_folder folder;
  fs::create_directory(folder / "a");
  fs::create_directory_symlink(folder / "a", folder / "b");
  const checkpoint_lock first(folder / "a");
  EXPECT_THROW(checkpoint_lock second(folder / "b"), error);
}

// The kernel knows: no process id that somebody else may have by now is believed.
TEST(CheckpointLock, IsTakenOverAtOnceFromAProcessThatWasKilled) {
  const temporary_folder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const auto child = ::fork();
  if (child == 0) {
    const checkpoint_lock lock(folder.path());
    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
    for (;;)
      ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW(checkpoint_lock(folder.path()), error);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(read_file(folder / "lock"), HasSubstr("process " + std::to_string(child)));
  const checkpoint_lock mine(folder.path());
  EXPECT_THAT(read_file(folder / "lock"), HasSubstr("process " + std::to_string(::getpid())));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(CheckpointLock, WaitsForAHolderThatIsLeaving) {
  const temporary_folder folder;
  auto first = std::make_unique<checkpoint_lock>(folder.path());
  int asked = 0;
  const checkpoint_lock second(folder.path(), 60s, [&] {
    if (++asked == 2) first.reset();
    return false;
  });
  EXPECT_GE(asked, 2);
}

TEST(CheckpointLock, GivesUpWaitingWhenAsked) {
  const temporary_folder folder;
  const checkpoint_lock first(folder.path());
  EXPECT_THAT([&] { checkpoint_lock(folder.path(), 60s, [] { return true; }); },
              ThrowsMessage<error>(HasSubstr("given up")));
}

const char* const stranger = "boot 0123\nhost elsewhere\nprocess 77\nprogram vgg16\nsince then\n";

// As on a file system that does not pass locks on: only the renewed time tells.
TEST(CheckpointLock, AnotherHostsHolderThatRenewsItIsBelieved) {
  const temporary_folder folder;
  write_file(folder / "lock", stranger);
  const auto renews = [&] {
    ::utimensat(AT_FDCWD, (folder / "lock").c_str(), nullptr, 0);
    return false;
  };
  EXPECT_THAT([&] { checkpoint_lock(folder.path(), 0s, renews); },
              ThrowsMessage<error>(AllOf(HasSubstr("vgg16, process 77 on elsewhere"), HasSubstr("goes on renewing"))));
}

TEST(CheckpointLock, AnotherHostsHolderThatHasBeenSilentForLongIsNot) {
  const temporary_folder folder;
  write_file(folder / "lock", stranger);
  const timespec old[2]{{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder / "lock").c_str(), old, 0), 0);
  const checkpoint_lock mine(folder.path(), 0s, [] { return true; }); // would give up waiting
  EXPECT_THAT(read_file(folder / "lock"), Not(HasSubstr("elsewhere")));
}

TEST(CheckpointLock, WhateverElseLiesUnderItsNameIsRefusedWithoutWaiting) {
  const temporary_folder folder;
  ASSERT_EQ(::mkfifo((folder / "lock").c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_THAT([&] { checkpoint_lock lock(folder.path()); }, ThrowsMessage<error>(HasSubstr("not a regular file")));
  fs::remove(folder / "lock");
  fs::create_directory(folder / "lock");
  EXPECT_THROW(checkpoint_lock lock(folder.path()), error);
  fs::remove(folder / "lock");
  fs::create_symlink(folder / "elsewhere", folder / "lock");
  EXPECT_THROW(checkpoint_lock lock(folder.path()), error);
  EXPECT_FALSE(fs::exists(folder / "elsewhere"));
  write_file(folder / "file", "x");
  EXPECT_THAT([&] { checkpoint_lock lock(folder / "file"); }, ThrowsMessage<error>(HasSubstr("file")));
}

TEST(CheckpointLock, IsTakenAgainWhenItWasRemovedUnlessAnotherHasIt) {
  const temporary_folder folder;
  checkpoint_lock mine(folder / "ck");
  fs::remove_all(folder / "ck");
  mine.keep();
  EXPECT_THROW(checkpoint_lock(folder / "ck"), error);
  fs::remove(folder / "ck/lock");
  const checkpoint_lock other(folder / "ck");
  EXPECT_THAT([&] { mine.keep(); }, ThrowsMessage<error>(AllOf(HasSubstr("in use by"), HasSubstr("was removed"))));
}

TEST(CheckpointLock, SweepsWhatADeadWriterHasLeftAndNothingElse) {
  const temporary_folder folder;
  for (const auto* name :
       {".penstock-12-3.tmp", ".penstock-probe-abcdef", ".writing-step-0000000004/stage-0.safetensors", "latest",
        "step-0000000004/manifest.json", "notes.tmp", ".hidden"})
    write_file(folder / name, "x");
  {
    const checkpoint_lock lock(folder.path());
    EXPECT_THAT(folder.names(),
                ::testing::UnorderedElementsAre("lock", "latest", "step-0000000004", "notes.tmp", ".hidden"));
  }
  EXPECT_FALSE(fs::exists(folder / "lock"));
}

} // namespace
} // namespace penstock::actors
