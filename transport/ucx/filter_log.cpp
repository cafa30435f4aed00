// A log handler: UCX prints, and aborts, only in the handler after it.
#include "transport/ucx/filter_log.hpp"

#include <cstdarg>
#include <mutex>
#include <string_view>
#include <ucs/config/types.h>
#include <ucs/debug/log_def.h>

namespace penstock::transport {

namespace {

ucs_log_func_rc_t filter(const char* path, unsigned, const char*, ucs_log_level_t level,
                         const ucs_log_component_config_t*, const char*, va_list) {
  const std::string_view file(path);
  const bool is_dead_peer = level == UCS_LOG_LEVEL_FATAL && file.ends_with("cma_ep.c");
  // Shared memory cannot be closed by force, so a lost peer's requests stay with the worker until its end.
  const bool is_left_over = level == UCS_LOG_LEVEL_WARN && (file.ends_with("mpool.c") || file.ends_with("callbackq.c"));
  return is_dead_peer || is_left_over ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
}

} // namespace

void filter_ucx_log() {
  static std::once_flag once;
  std::call_once(once, [] { ucs_log_push_handler(&filter); });
}

} // namespace penstock::transport
