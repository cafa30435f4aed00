// The commands of the `penstock` tool that are not whole programs elsewhere.
#pragma once

#include <span>
#include <string>

namespace penstock::tools {

/// Each takes the arguments behind its name and returns the exit code. Throws usage_error for arguments that make no
/// sense and penstock::error for what fails.
int models_command(std::span<const std::string> arguments);
int profile_command(std::span<const std::string> arguments);
int cluster_command(std::span<const std::string> arguments);
int plan_command(std::span<const std::string> arguments);
int simulate_command(std::span<const std::string> arguments);
int schedule_command(std::span<const std::string> arguments);
int tokenizer_command(std::span<const std::string> arguments);
int replan_command(std::span<const std::string> arguments);
int score_command(std::span<const std::string> arguments);
int launch_command(std::span<const std::string> arguments);

} // namespace penstock::tools
