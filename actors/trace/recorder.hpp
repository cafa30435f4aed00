// Takes records from any thread and brings them to the trace file while the run goes on.
#pragma once

#include "actors/trace/record.hpp"

#include <filesystem>
#include <memory>

namespace penstock::actors {

/// One ring per recording thread (single producer), emptied by a writer thread as it fills; a full ring drops the
/// record and counts it. record() takes no lock and allocates only on a thread's first call.
class trace_recorder {
public:
  /// Opens the file at once. Throws penstock::error naming it when that fails.
  trace_recorder(std::filesystem::path file, trace_header header);
  /// Closes if close() was not called; then the file says that the trace is incomplete.
  ~trace_recorder();
  void record(const trace_record& r);
  /// Writes trace_header::clock_offset_ns anew, as often as it is measured better; not after close(). Any thread.
  void set_clock_offset(std::int64_t ns);
  /// Another plan takes over: adds it to trace_header::changes, which is written anew. To be called at the drain, from
  /// any thread, before anything under the new plan is recorded; not after close(). Throws penstock::error for a plan
  /// that no file may have or whose first stretch or minibatch lies before the last one's.
  void change_plan(trace_plan_epoch next);
  /// Drains all rings, writes the end of the file. Throws penstock::error when the disk refused bytes.
  void close(std::int64_t minibatches);
  std::int64_t dropped() const;
  std::int64_t recorded() const;
  static std::int64_t now_ns();

private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace penstock::actors
