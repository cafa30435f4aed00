// Walks back in time from cause to cause.
#include "tools/trace/critical_path.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace penstock::actors {

namespace {

using what = path_share::what;

/// The walk through one section; its time goes down from the section's end to its begin.
class path_walk {
public:
  using shares = std::map<std::tuple<what, int, int>, std::int64_t>; // kind, stage, to_stage: nanoseconds

  path_walk(const trace_header& header, const span_causes& causes, const time_section& section, shares& sums)
      : header_(header), causes_(causes), begin_(section.first), now_(section.second), sums_(sums) {}

  void run() {
    const trace_record* span = causes_.last_before(now_);
    if (span == nullptr) return;
    now_ = span->end_ns; // what is under way when the section ends is on no path yet
    while (span != nullptr && now_ > begin_) {
      go_back_to(span->begin_ns, span->kind == span_kind::update ? what::update : what::compute, span->stage);
      span = follow(*span);
    }
  }

private:
  /// All time from here back to `time_ns` is of this kind.
  void go_back_to(std::int64_t time_ns, what kind, int stage, int to_stage = -1) {
    time_ns = std::max(time_ns, begin_);
    if (time_ns >= now_) return;
    sums_[{kind, stage, to_stage}] += now_ - time_ns;
    now_ = time_ns;
  }

  /// From the span's begin back to its cause's end. Returns the cause's span.
  const trace_record* follow(const trace_record& span) {
    const auto cause = causes_.of(span);
    // Where the trace knows no earlier one the rest of the section has no name.
    if (cause.span == nullptr || cause.span->begin_ns >= span.begin_ns) {
      go_back_to(begin_, what::handover, span.stage);
      return nullptr;
    }
    const bool is_summed =
        cause.kind == span_cause::what::sum && header_.plan.stages[static_cast<std::size_t>(span.stage)].replicas > 1;
    if (const auto input = causes_.input_ns(span); input > cause.ready_ns) {
      go_back_to(input, what::handover, span.stage);
      go_back_to(cause.ready_ns, what::input, span.stage);
    }
    go_back_to(cause.ready_ns, is_summed ? what::all_reduce : what::handover, span.stage);
    if (cause.message.send != nullptr)
      go_back_to(cause.message.send->begin_ns, what::link, cause.span->stage, span.stage);
    go_back_to(cause.span->end_ns, what::handover, cause.span->stage);
    return cause.span;
  }

  const trace_header& header_;
  const span_causes& causes_;
  std::int64_t begin_;
  std::int64_t now_;
  shares& sums_;
};

} // namespace

std::vector<path_share> critical_path(const trace_header& header, const span_causes& causes,
                                      const std::vector<time_section>& sections) {
  path_walk::shares sums;
  for (const auto& section : sections)
    path_walk(header, causes, section, sums).run();
  std::int64_t all = 0;
  for (const auto& [key, ns] : sums)
    all += ns;
  std::vector<path_share> path;
  for (const auto& [key, ns] : sums) {
    const auto& [kind, stage, to_stage] = key;
    path.push_back(
        {kind, stage, to_stage, static_cast<double>(ns) * 1e-9, static_cast<double>(ns) / static_cast<double>(all)});
  }
  std::stable_sort(path.begin(), path.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return path;
}

std::string name_of(const path_share& part) {
  if (part.kind == what::link) return "link " + std::to_string(part.stage) + " -> " + std::to_string(part.to_stage);
  const char* kind = part.kind == what::compute      ? " compute"
                     : part.kind == what::update     ? " update"
                     : part.kind == what::all_reduce ? " all-reduce"
                     : part.kind == what::input      ? " input"
                                                     : " handover";
  return "stage " + std::to_string(part.stage) + kind;
}

} // namespace penstock::actors
