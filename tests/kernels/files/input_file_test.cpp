// Only regular files are read, nothing is waited for, and a size is known before it is paid for.
#include "kernels/check.hpp"
#include "kernels/input_file.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

#include <sys/stat.h>

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::temporary_folder;
using testing_support::write_file;

std::string refusal_of(const std::filesystem::path& file, std::uint64_t most = 100) {
  try {
    read_whole_file(file, most);
  } catch (const error& e) {
    EXPECT_THAT(e.what(), HasSubstr(file.string()));
    return e.what();
  }
  return "";
}

TEST(InputFile, GivesItsBytesByOffset) {
  const temporary_folder folder;
  write_file(folder / "f", "0123456789");
  const input_file file(folder / "f");
  EXPECT_EQ(file.size(), 10U);
  std::string part(4, ' ');
  file.read(3, part.data(), part.size());
  EXPECT_EQ(part, "3456");
  EXPECT_EQ(file.read_some(8, part.data(), part.size()), 2U);
  EXPECT_EQ(file.read_some(10, part.data(), part.size()), 0U);
  EXPECT_THROW(file.read(8, part.data(), part.size()), error);
  EXPECT_EQ(read_whole_file(folder / "f", 10), "0123456789");
}

TEST(InputFile, APipeADeviceAndAFolderAreRefusedWithoutWaiting) {
  const temporary_folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_THAT(refusal_of(folder / "pipe"), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal_of("/dev/zero"), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal_of(folder.path()), HasSubstr("folder"));
  EXPECT_THAT(refusal_of(folder / "none"), HasSubstr("No such file"));
}

TEST(InputFile, AHugeSparseFileIsRefusedBeforeItIsRead) {
  const temporary_folder folder;
  write_file(folder / "f", "x");
  std::filesystem::resize_file(folder / "f", std::uintmax_t{7} << 30);
  EXPECT_THAT(refusal_of(folder / "f"), AllOf(HasSubstr("found 7516192768 bytes"), HasSubstr("at most 100")));
}

} // namespace
} // namespace penstock
