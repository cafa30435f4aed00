// How a program of ours ends.
#pragma once

#include <functional>
#include <string_view>

namespace penstock::apps {

enum exit_code : int { done = 0, failed = 1, usage = 2, interrupted = 130, terminated = 143 };

/// Runs `body` and returns its value. An exception becomes one line on stderr, "PROGRAM: what it says", and the exit
/// code that belongs to it; none gets out.
int run_guarded(std::string_view program, const std::function<int()>& body) noexcept;

} // namespace penstock::apps
