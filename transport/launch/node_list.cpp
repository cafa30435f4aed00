// Expands the short form of node lists: "rack[1-2]n[01-03]-ib,login".
#include "kernels/check.hpp"
#include "transport/launch/values.hpp"

#include <algorithm>

namespace penstock::transport {

namespace {

// Whatever a list says, it must not eat the memory.
constexpr std::size_t most_names = 65536;

[[noreturn]] void refuse_list(const std::string& list) {
  refuse("node list", list,
         "names and ranges such as n[01-03,07],m2, at most " + std::to_string(most_names) + " nodes");
}

void append_numbers(const std::string& list, const std::string& range, std::vector<std::string>& to) {
  const auto dash = range.find('-');
  const auto low_text = range.substr(0, dash);
  const auto high_text = dash == std::string::npos ? low_text : range.substr(dash + 1);
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!is_number(low_text) || !is_number(high_text)) refuse_list(list);
  const auto low = std::stoul(low_text);
  const auto high = std::stoul(high_text);
  if (low > high || high - low >= most_names) refuse_list(list);
  for (auto number = low; number <= high; ++number) {
    auto text = std::to_string(number);
    if (text.size() < low_text.size()) text.insert(0, low_text.size() - text.size(), '0');
    to.push_back(text);
  }
}

// Parts at commas outside of brackets; the brackets must match and not nest.
std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts(1);
  bool is_inside = false;
  for (const char c : list) {
    if ((c == '[' && is_inside) || (c == ']' && !is_inside)) refuse_list(list);
    if (c == '[' || c == ']') is_inside = c == '[';
    if (c == ',' && !is_inside)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (is_inside) refuse_list(list);
  return parts;
}

// One part: text and bracketed ranges in turn; each bracket multiplies the names so far.
std::vector<std::string> names_of(const std::string& list, const std::string& part) {
  std::vector<std::string> names(1);
  std::size_t at = 0;
  while (at < part.size()) {
    const auto open = std::min(part.find('[', at), part.size());
    for (auto& name : names)
      name += part.substr(at, open - at);
    if (open == part.size()) break;
    const auto close = part.find(']', open);
    std::vector<std::string> numbers;
    for (const auto& range : parts_of(part.substr(open + 1, close - open - 1)))
      append_numbers(list, range, numbers);
    if (names.size() * numbers.size() > most_names) refuse_list(list);
    std::vector<std::string> longer;
    for (const auto& name : names)
      for (const auto& number : numbers)
        longer.push_back(name + number);
    names = std::move(longer);
    at = close + 1;
  }
  return names;
}

} // namespace

std::vector<std::string> expand_node_list(const std::string& list) {
  if (list.size() > 1'000'000) refuse_list(list);
  std::vector<std::string> names;
  for (const auto& part : parts_of(list)) {
    if (part.empty()) refuse_list(list);
    const auto more = names_of(list, part);
    if (names.size() + more.size() > most_names) refuse_list(list);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

} // namespace penstock::transport
