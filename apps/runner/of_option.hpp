// Faults of an option's value, found where the option is not known any more.
#pragma once

#include "kernels/check.hpp"

#include <stdexcept>
#include <string>

namespace penstock::apps {

/// Does the work; what it throws for bad input begins with the option's name then, once. The planner's
/// std::invalid_argument becomes a usage_error.
template <class Work>
auto of_option(const std::string& option, Work work) {
  const auto named = [&](const std::string& what) { return what.starts_with(option) ? what : option + ": " + what; };
  try {
    return work();
  } catch (const usage_error& fault) {
    throw usage_error(named(fault.what()));
  } catch (const error& fault) {
    throw error(named(fault.what()));
  } catch (const std::invalid_argument& fault) {
    throw usage_error(named(fault.what()));
  }
}

} // namespace penstock::apps
