// What a file is, where it is not what was wanted: people give a plan for a profile, a trace for a plan.
#pragma once

#include <string>
#include <string_view>

namespace penstock::planner {

enum class file_kind { unknown, plan, profile, graph, cluster, trace, weights, metrics, archive, program };

/// By the first bytes; `unknown` where nothing says.
file_kind kind_of(std::string_view text);

/// What a reader of profiles wants, of either kind.
constexpr const char* wanted_profile =
    "a profile, as `penstock profile MODEL -o FILE` writes it, or PipeDream's graph.txt";

/// "a plan", "a cluster's TOML", ...
std::string name_of(file_kind kind);

/// Throws std::invalid_argument, one line that begins with `source`, says what the file is and ends with `wanted`, if
/// it is known to be none of `kind` and `also`.
void refuse_other_kind(std::string_view text, const std::string& source, file_kind kind, const std::string& wanted,
                       file_kind also = file_kind::unknown);

} // namespace penstock::planner
