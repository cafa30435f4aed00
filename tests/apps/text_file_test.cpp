// Text files and pipes: read whole, never waited for without end.
#include "apps/runner/text_file.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::apps {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(TextFile, APipeThatNobodyWritesIntoIsRefusedAtOnce) {
  const testing_support::temporary_folder folder;
  ASSERT_EQ(::mkfifo((folder / "p").c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_THAT([&] { read_text_file(folder / "p"); }, ThrowsMessage<error>(HasSubstr("nobody writes")));
}

TEST(TextFile, APipeIsReadToItsEnd) { // as of a shell's <(command)
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "text", 4), 4);
  ::close(ends[1]);
  EXPECT_EQ(read_text_file("/dev/fd/" + std::to_string(ends[0])), "text");
  ::close(ends[0]);
}

TEST(TextFile, AHugeSparseFileIsRefusedUnread) {
  const testing_support::temporary_folder folder;
  testing_support::write_file(folder / "f", "x");
  std::filesystem::resize_file(folder / "f", std::uintmax_t{7} << 30);
  EXPECT_THAT([&] { read_text_file(folder / "f"); }, ThrowsMessage<std::invalid_argument>(HasSubstr("256 MB")));
}

} // namespace
} // namespace penstock::apps
