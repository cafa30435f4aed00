// Lines of files from elsewhere: both kinds of line ends, a mark of byte order, bytes that are no text.
#include "apps/metrics/lines.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(LinesOfText, EndInEitherWay) {
  EXPECT_THAT(lines_of("a\r\nb\n\nc", "f"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(lines_of("a\n", "f"), ElementsAre("a"));
}

TEST(LinesOfText, AMarkOfByteOrderIsNoPartOfTheFirst) {
  EXPECT_THAT(lines_of("\xef\xbb\xbf"
                       "a\n\xef\xbb\xbf",
                       "f"),
              ElementsAre("a", "\xef\xbb\xbf"));
}

TEST(LinesOfText, ABadByteIsNamedWithItsLine) {
  for (const char* bad : {"ok\nab\xff", "ok\nab\xc3\n", "ok\nab\xed\xa0\x80", "ok\nab\xc0\xaf"})
    EXPECT_THAT([&] { lines_of(bad, "file.txt"); },
                ThrowsMessage<usage_error>(HasSubstr("file.txt: line 2: byte 3 is no UTF-8")));
}

TEST(LinesOfText, NoLineAtAllIsRefused) {
  EXPECT_THAT([] { lines_of("", "file.txt"); }, ThrowsMessage<usage_error>(HasSubstr("file.txt: found no lines")));
}

} // namespace
} // namespace penstock::apps
