// A few lines of shell stand for the launcher on the other host; nothing of ours need be installed there but the
// program.
#include "tools/launch/remote.hpp"

#include <csignal>
#include <cstring>

namespace penstock::tools::launcher {

namespace {

// One line, since not every login shell keeps line ends inside quotes. The rank, this shell and the reader of orders
// are the process group that ssh's server (or the launcher, for what stands in for ssh) made for this command; "kill 0"
// reaches all of it, so the shell catches what is meant for the rank and the reader ignores it. The rank runs in the
// foreground: in the background it would ignore SIGINT. Whatever it leaves behind would keep ssh waiting. The shell's
// own words about signals go nowhere: the launcher has its own.
constexpr const char* wrapper =
    "cd -- \"$1\" || exit 1; shift; "
    "unset PENSTOCK_SECRET_FILE PENSTOCK_LISTEN_FD; "
    "IFS= read -r PENSTOCK_SECRET || exit 1; export PENSTOCK_SECRET; "
    "trap : HUP INT TERM USR1; "
    "exec 3<&0 </dev/null; "
    "{ trap \"\" HUP INT TERM USR1; while IFS= read -r order; do kill -s \"$order\" 0; done; kill -s KILL 0; } "
    "<&3 3<&- >/dev/null 2>&1 & "
    "reader=$!; exec 3<&- 4>&2 2>/dev/null; "
    "(exec env \"$@\" 2>&4 4>&-); code=$?; "
    "kill -s KILL \"$reader\"; kill -s TERM 0; exit \"$code\"";

} // namespace

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  }
  return result + "'";
}

std::vector<std::string> remote_command(const std::vector<std::string>& ssh, const std::string& host,
                                        const std::string& folder, const std::vector<std::string>& variables,
                                        const std::vector<std::string>& command) {
  std::string text = "exec sh -c " + quoted(wrapper) + " penstock-rank " + quoted(folder);
  for (const auto* words : {&variables, &command})
    for (const auto& word : *words)
      text += ' ' + quoted(word);
  auto result = ssh;
  result.push_back(host);
  result.push_back(text);
  return result;
}

std::string order_of(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "TERM" : name;
}

} // namespace penstock::tools::launcher
