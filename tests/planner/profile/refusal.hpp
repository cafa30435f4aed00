// What a reader says about bad input, and bad input to give it.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <string>

namespace penstock::planner {

/// The message of the std::invalid_argument that `action` throws, which must be one line; "" where it throws nothing.
template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const std::invalid_argument& e) {
    const std::string what = e.what();
    EXPECT_EQ(what.find_first_of("\r\n"), std::string::npos) << what;
    EXPECT_FALSE(what.empty());
    return what;
  }
  return "";
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("the text has no " + from);
  return text.replace(at, from.size(), to);
}

/// The text with a few bytes changed, put in, taken out, repeated or cut off.
template <class Generator>
std::string mutated(std::string text, Generator& random) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string telling = "{}[]\",:=-.+0123456789eE\n\t #'\\\"nua\xff";
  for (auto changes = 1 + below(4); changes > 0 && !text.empty(); --changes) {
    const auto at = below(text.size());
    switch (below(6)) {
    case 0:
      text[at] = static_cast<char>(below(256));
      break;
    case 1:
      text[at] = telling[below(telling.size())];
      break;
    case 2:
      text.insert(at, 1, telling[below(telling.size())]);
      break;
    case 3:
      text.erase(at, 1 + below(20));
      break;
    case 4:
      text.insert(at, text.substr(below(text.size()), 1 + below(40)));
      break;
    default:
      if (below(10) == 0) text.resize(at);
    }
  }
  return text;
}

} // namespace penstock::planner
