// The only place that turns exceptions into exit codes.
#include "apps/runner/exit_codes.hpp"

#include "apps/runner/say.hpp"
#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"

#include <cstdio>

namespace penstock::apps {

namespace {

int report(std::string_view program, std::string_view what, exit_code code) {
  std::fflush(stdout);
  // A model's own message begins with its name, which is the app's as well.
  if (what.starts_with(program) && what.substr(program.size()).starts_with(": "))
    what.remove_prefix(program.size() + 2);
  complain(program, what);
  return code;
}

} // namespace

int run_guarded(std::string_view program, const std::function<int()>& body) noexcept {
  try {
    prepare_for_little_memory();
    return body();
  } catch (const usage_error& fault) {
    return report(program, fault.what(), usage);
  } catch (const std::invalid_argument& fault) { // the planner's word for the same
    return report(program, fault.what(), usage);
  } catch (const std::exception& fault) {
    return report(program, described(fault), failed);
  } catch (...) {
    return report(program, "failed with an unknown exception", failed);
  }
}

} // namespace penstock::apps
