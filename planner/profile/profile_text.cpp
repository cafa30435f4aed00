// Which kind of profile a text is.
#include "planner/profile/profile.hpp"

#include <stdexcept>

namespace penstock::planner {

profile read_profile(std::string_view text, const std::string& source) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos)
    throw std::invalid_argument(source + ": the file is empty, wanted a profile (JSON) or a PipeDream graph.txt");
  return text[first] == '{' ? profile_from_json(text, source) : profile_from_graph(text, source);
}

} // namespace penstock::planner
