// Text as it comes: ends of lines, marks, bytes that are no text.
#include "apps/text/lines.hpp"
#include "kernels/check.hpp"
#include "tests/text/fixtures.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

std::vector<std::string> read_all(const std::filesystem::path& file) {
  line_reader lines(file.string());
  std::vector<std::string> all;
  while (const auto line = lines.next())
    all.emplace_back(*line);
  return all;
}

std::string fault_of(const std::filesystem::path& file) {
  try {
    read_all(file);
  } catch (const error& fault) {
    return fault.what();
  }
  return "none";
}

TEST(LineReader, TakesEveryEndOfLineAndLeavesTheMarkOut) {
  const temporary_folder folder;
  write_file(folder / "t", "\xef\xbb\xbfone\r\n\r\n\ntwo");
  EXPECT_EQ(read_all(folder / "t"), (std::vector<std::string>{"one", "", "", "two"}));
  write_file(folder / "t", "");
  EXPECT_TRUE(read_all(folder / "t").empty());
}

TEST(LineReader, NamesLineAndByteOfWhatIsNoUtf8) {
  const temporary_folder folder;
  const auto file = folder / "t";
  for (const std::string bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xbd"}) {
    write_file(file, "fine\nab" + bad);
    EXPECT_THAT(fault_of(file), testing::StartsWith(file.string() + ": line 2: byte 3 is 0x"));
  }
}

TEST(LineReader, RefusesWhatIsTooLongOrHasANul) {
  const temporary_folder folder;
  const auto file = folder / "t";
  write_file(file, std::string(longest_text_line, 'x') + "\nshort");
  EXPECT_EQ(read_all(file).size(), 2U);
  write_file(file, std::string(3 * longest_text_line, 'x'));
  EXPECT_THAT(fault_of(file), testing::HasSubstr("line 1: has more than 1048576 bytes"));
  write_file(file, std::string("a\0b", 3));
  EXPECT_THAT(fault_of(file), testing::HasSubstr("line 1: has a NUL"));
}

} // namespace
} // namespace penstock::apps
