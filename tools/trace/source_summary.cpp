// Sums the source's records.
#include "tools/trace/source_summary.hpp"

namespace penstock::actors {

source_summary summarize_source(const std::vector<trace_record>& records) {
  source_summary s;
  for (const auto& r : records) {
    if (r.stage != -1) continue;
    const auto seconds = static_cast<double>(r.end_ns - r.begin_ns) * 1e-9;
    if (r.kind == span_kind::send) ++s.admitted;
    if (r.kind != span_kind::wait) continue;
    if (r.reason == wait_reason::no_credit) s.waited_for_credit_seconds += seconds;
    if (r.reason == wait_reason::no_input) s.waited_for_data_seconds += seconds;
  }
  return s;
}

} // namespace penstock::actors
