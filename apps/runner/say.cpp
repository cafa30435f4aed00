// The streams of a program, behind the one filter for text of others.
#include "apps/runner/say.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace penstock::apps {

void say(std::string_view lines) {
  errno = 0;
  if (std::fputs(printable_lines(lines).c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw error(std::string("cannot write to standard output: ") + std::strerror(errno));
}

void complain(std::string_view program, std::string_view text) {
  std::fputs((shortened(program) + ": " + one_line(text) + "\n").c_str(), stderr);
}

} // namespace penstock::apps
