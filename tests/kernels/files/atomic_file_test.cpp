// Files that appear whole or not at all, also when the disk is full.
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

#include <csignal>
#include <functional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing_support::read_file;
using testing_support::temporary_folder;
using testing_support::write_file;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const error& e) {
    EXPECT_THAT(e.what(), testing::Not(HasSubstr("\n")));
    return e.what();
  }
  return "no error";
}

// Writes beyond 64 KiB fail as on a full disk, with EFBIG in the place of ENOSPC.
class small_disk {
public:
  small_disk() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    auto small = before_;
    small.rlim_cur = 65536;
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~small_disk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(AtomicFile, HoldsWhatWasWrittenInPieces) {
  const temporary_folder folder;
  atomic_file file(folder / "f");
  file.write("one ");
  file.write("two", 3);
  file.commit();
  EXPECT_EQ(read_file(folder / "f"), "one two");
  EXPECT_THAT(folder.names(), ElementsAre("f"));
}

TEST(AtomicFile, IsNotThereBeforeItsCommit) {
  const temporary_folder folder;
  write_file(folder / "f", "old");
  {
    atomic_file file(folder / "f");
    file.write("new");
    EXPECT_EQ(read_file(folder / "f"), "old");
  }
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_THAT(folder.names(), ElementsAre("f"));
}

TEST(AtomicFile, ReplacesAnOlderFileAndLeavesNothingElse) {
  const temporary_folder folder;
  write_file(folder / "f", "a longer old file");
  atomic_file file(folder / "f");
  file.write("new");
  file.commit();
  EXPECT_EQ(read_file(folder / "f"), "new");
  EXPECT_THAT(folder.names(), ElementsAre("f"));
}

TEST(AtomicFile, MayBeEmptyAndMayHaveTheLongestName) {
  const temporary_folder folder;
  const std::string longest(255, 'n');
  atomic_file file(folder / longest);
  file.commit();
  EXPECT_THAT(folder.names(), ElementsAre(longest));
}

TEST(AtomicFile, TwoWritersOfOneFileDoNotMix) {
  const temporary_folder folder;
  atomic_file first(folder / "f");
  atomic_file second(folder / "f");
  first.write("first");
  second.write("second");
  first.commit();
  second.commit();
  EXPECT_EQ(read_file(folder / "f"), "second");
  EXPECT_THAT(folder.names(), ElementsAre("f"));
}

TEST(AtomicFile, ReadableByThoseWhoMayReadNewFiles) {
  const temporary_folder folder;
  const auto mask = ::umask(022);
  atomic_file file(folder / "f");
  file.commit();
  ::umask(mask);
  EXPECT_EQ(std::filesystem::status(folder / "f").permissions(), static_cast<std::filesystem::perms>(0644));
}

TEST(AtomicFile, WritesThroughALink) {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  write_file(folder / "elsewhere/f", "old");
  std::filesystem::create_symlink("elsewhere/f", folder / "link");
  atomic_file file(folder / "link");
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "elsewhere/f"), "new");
}

TEST(AtomicFile, NamesTheFileWhoseFolderDoesNotExist) {
  const temporary_folder folder;
  const auto message = message_of([&] { atomic_file file(folder / "none/f"); });
  EXPECT_THAT(message, StartsWith((folder / "none/f").string()));
  EXPECT_THAT(message, HasSubstr("No such file or directory"));
}

TEST(AtomicFile, RefusesAnUnwritableFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const temporary_folder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_THAT(message_of([&] { atomic_file file(folder / "f"); }), HasSubstr("Permission denied"));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
}

TEST(AtomicFile, RefusesToReplaceWhatIsNoFile) {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "d");
  EXPECT_THAT(message_of([&] { atomic_file file(folder / "d"); }), HasSubstr("it is a folder"));
  EXPECT_THAT(message_of([] { atomic_file file("/dev/null"); }), HasSubstr("it is not a regular file"));
  EXPECT_THAT(message_of([&] { atomic_file file(folder.path() / ""); }), HasSubstr("no file name"));
  EXPECT_THAT(message_of([] { atomic_file file(""); }), HasSubstr("no file name"));
  EXPECT_THAT(folder.names(), ElementsAre("d"));
}

TEST(AtomicFile, LeavesNothingOnAFullDisk) {
  const temporary_folder folder;
  const std::string block(65536, 'x');
  const auto message = message_of([&] {
    const small_disk limit;
    atomic_file file(folder / "f");
    file.write(block);
    file.write(block);
    file.commit();
  });
  EXPECT_THAT(message, StartsWith((folder / "f").string() + ": cannot write: "));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(AtomicFile, CannotBeCommittedAfterAFailedWrite) {
  const temporary_folder folder;
  {
    atomic_file file(folder / "f");
    {
      const small_disk limit;
      EXPECT_THROW(file.write(std::string(100000, 'x')), error);
    }
    EXPECT_THROW(file.commit(), std::logic_error);
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(AtomicFile, KeepsTheOldFileOnAFullDisk) {
  const temporary_folder folder;
  write_file(folder / "f", "old");
  message_of([&] {
    const small_disk limit;
    atomic_file file(folder / "f");
    file.write(std::string(100000, 'x'));
    file.commit();
  });
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_THAT(folder.names(), ElementsAre("f"));
}

// What a second Ctrl-C does: the process ends in its handler.
TEST(AtomicFile, IsRemovedByWhoEndsTheProcessAtOnce) {
  const temporary_folder folder;
  {
    atomic_file one(folder / "f");
    one.write("half");
    atomic_file two(folder / "g");
    two.commit();
    remove_unfinished_files();
    EXPECT_THAT(folder.names(), ElementsAre("g"));
  }
  remove_unfinished_files();
  EXPECT_THAT(folder.names(), ElementsAre("g"));
  for (int i = 0; i < 100; ++i) { // more than are ever noted at once
    atomic_file file(folder / "g");
    file.commit();
  }
  atomic_file last(folder / "f");
  remove_unfinished_files();
  EXPECT_THAT(folder.names(), ElementsAre("g"));
}

} // namespace
} // namespace penstock
