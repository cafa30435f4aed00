// Delta debugging over choices.
#include "tests/actors/scripted/script.hpp"

#include <algorithm>

namespace penstock::testing {

std::size_t script::choose(std::size_t count) {
  if (is_drawn_) {
    choices_.push_back(static_cast<std::uint32_t>(bits_() % count));
    return choices_.back();
  }
  return next_ < choices_.size() ? choices_[next_++] % count : 0;
}

std::vector<std::uint32_t> shrink(std::vector<std::uint32_t> failing,
                                  const std::function<bool(const std::vector<std::uint32_t>&)>& fails) {
  const auto take_if_it_fails = [&](std::vector<std::uint32_t> shorter) {
    while (!shorter.empty() && shorter.back() == 0)
      shorter.pop_back();
    if (shorter == failing || !fails(shorter)) return false;
    failing = std::move(shorter);
    return true;
  };
  for (auto length = failing.size() / 2; length > 0; length /= 2)
    take_if_it_fails(
        {failing.begin(), failing.begin() + static_cast<std::ptrdiff_t>(std::min(length, failing.size()))});
  for (auto run = std::max<std::size_t>(1, failing.size() / 2); run > 0; run /= 2)
    for (std::size_t at = 0; at < failing.size(); at += run) {
      auto quieter = failing;
      std::fill_n(quieter.begin() + static_cast<std::ptrdiff_t>(at), std::min(run, quieter.size() - at), 0U);
      take_if_it_fails(std::move(quieter));
    }
  return failing;
}

} // namespace penstock::testing
