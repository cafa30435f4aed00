// Values of the options that a model has for itself, and what --width and --dropout mean to all.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

/// As it was given, "" where it was not.
std::string own_text(const model_options& options, const std::string& name);
inline bool own_switch(const model_options& options, const std::string& name) {
  return !own_text(options, name).empty();
}
/// `otherwise` where it was not given. Throws usage_error: "--layers: found 'x', wanted a whole number from 1 to 64".
std::int64_t own_whole(const model_options& options, const std::string& name, std::int64_t otherwise,
                       std::int64_t least, std::int64_t most);
/// From 0 to `most`, or below it. Throws usage_error likewise.
enum class upper_end : std::uint8_t { included, excluded };
double own_real(const model_options& options, const std::string& name, double otherwise, double most,
                upper_end end = upper_end::included);

/// DESIGN section 9: rounded to a multiple of 8, at least 8; as it is where the width is 1.
std::int64_t scaled(std::int64_t size, double width);
/// Throws usage_error, the model's name in front, for a width or a rate of dropout that no model takes.
void check_width_and_dropout(const std::string& model, const model_options& options);

} // namespace penstock::apps
