// Output paths that cannot be written are found, and looking leaves nothing behind.
#include "apps/runner/output_files.hpp"
#include "kernels/check.hpp"
#include "tests/support/process.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace penstock::apps {
namespace {

TEST(OutputFiles, AWritablePlaceIsLeftAsItWas) {
  const test::temporary_folder folder;
  check_output_file("--trace", folder / "t.pftrace");
  check_output_folder("--checkpoint", folder / "not/yet/there");
  EXPECT_TRUE(folder.empty());
}

TEST(OutputFiles, AnExistingFileMayBeReplaced) {
  const test::temporary_folder folder;
  std::ofstream(folder / "t.pftrace") << "old";
  check_output_file("--trace", folder / "t.pftrace");
  EXPECT_EQ(test::read_text(folder / "t.pftrace"), "old");
}

TEST(OutputFiles, MissingFoldersAndFoldersInPlaceOfFilesAreRefused) {
  const test::temporary_folder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(check_output_file("--trace", folder / "no/t.pftrace"), error);
  EXPECT_THROW(check_output_file("--trace", folder.path()), error);
  EXPECT_THROW(check_output_file("--trace", folder / "file/t.pftrace"), error);
  EXPECT_THROW(check_output_file("--trace", folder.path().string() + "/"), error);
  EXPECT_THROW(check_output_folder("--checkpoint", folder / "file/ck"), error);
  EXPECT_THROW(check_output_folder("--checkpoint", folder / "file"), error);
}

} // namespace
} // namespace penstock::apps
