// `bench_plan auto`: how far the plan that --plan auto takes is from the best of six that are always the same.
#pragma once

#include <span>
#include <string>

namespace penstock::tools {

/// Returns the exit code: 0 when all is measured, whatever the figures. Throws as the runner.
int bench_plan_auto(std::span<const std::string> arguments);

} // namespace penstock::tools
