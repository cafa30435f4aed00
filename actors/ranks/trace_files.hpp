// A trace of several processes: each writes its own file, rank 0 makes one of them at the end.
#pragma once

#include "actors/ranks/bundle.hpp"
#include "actors/trace/recorder.hpp"

namespace penstock::actors {

/// In a single process: the trace file itself. In a job rank r records into FILE.rankR; on close the files go to rank 0,
/// which merges them on its own clock into FILE. What a run leaves that fails are the ranks' files, for `penstock trace
/// merge`.
class trace_files {
public:
  /// Throws penstock::error when the file cannot be opened.
  trace_files(std::filesystem::path file, trace_header header, const job* ranks);
  trace_recorder& recorder() { return *recorder_; }
  /// All ranks call it. Returns the records that were dropped, on rank 0 those of all ranks. Throws penstock::error.
  std::int64_t close(std::int64_t minibatches, bundle_transfers* transfers);

private:
  std::filesystem::path file_;
  std::filesystem::path own_;
  const job* ranks_;
  std::unique_ptr<trace_recorder> recorder_;
};

} // namespace penstock::actors
