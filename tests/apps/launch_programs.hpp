// How tests of the launcher start it, and see what it leaves behind.
#pragma once

#include "tests/apps/programs.hpp"

namespace penstock::test {

/// `penstock launch OPTIONS -- sh -c SCRIPT`.
std::vector<std::string> launch(std::vector<std::string> options, const std::string& script);
process_result launched(std::vector<std::string> options, const std::string& script, const process_options& how = {});

/// Command lines of all processes that hold the text.
std::vector<std::string> running_with(const std::string& text);
/// False when there are still some after a while.
bool come_to_nothing(const std::string& text);
/// A word that no other process has in its command line.
std::string mark_of(const temporary_folder& folder);

/// A rank that writes into rN what it gets, and ends on SIGTERM.
inline const std::string counting =
    "trap 'echo int >> r$PENSTOCK_RANK' INT; trap 'echo term >> r$PENSTOCK_RANK; exit 143' TERM; "
    "trap 'echo usr >> r$PENSTOCK_RANK' USR1; echo ready >> r$PENSTOCK_RANK; while :; do sleep 0.05; done";
/// Both of two such ranks have written it.
bool both_have(process& job, const temporary_folder& folder, const std::string& text);
/// Both of two ranks have made rN.
bool both_are_there(process& job, const temporary_folder& folder);

} // namespace penstock::test
