// Text as code points, for what metrics do with it. Their classes are in apps/text/unicode.hpp; utf8proc is seen by the
// .cpp alone.
#pragma once

#include <string>
#include <string_view>

namespace penstock::apps {

/// The code points of valid UTF-8; a stray byte becomes U+FFFD.
std::u32string code_points(std::string_view text);
std::string utf8(std::u32string_view text);

/// As Python's str.lower(): a capital sigma becomes the final one at a word's end, U+0130 two code points.
std::u32string lower_case(std::u32string_view text);

} // namespace penstock::apps
