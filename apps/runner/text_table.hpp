// Tables of plain text for people.
#pragma once

#include "actors/trainer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::apps {

/// Columns as wide as their widest cell, fitted to the terminal (kernels/text_table.hpp); the first row is the titles.
/// A column whose cells below the title all begin with a digit is set right.
std::string text_table(const std::vector<std::vector<std::string>>& rows, const std::string& indent = "");

/// How wide a picture of this many stages (planner/draw_timeline.hpp) may be on the terminal; at most 110, as
/// elsewhere.
int picture_columns(std::size_t stages);

std::string byte_text(std::int64_t bytes);  ///< "812 B", "10.3 KB", "1.20 GB": powers of 1000
std::string duration_text(double seconds);  ///< "0.3 s", "42 s", "3:07", "1:02:45"
std::string countdown_text(double seconds); ///< "0:42", "3:07", "1:02:45"
/// "loss 0.3312, top-1 89.13 %, top-5 99.70 %"; no shares where nothing was counted.
std::string evaluation_text(const actors::evaluation& found);
std::string percent_text(double part, double of); ///< "89.1 %", "-" when there is nothing

} // namespace penstock::apps
