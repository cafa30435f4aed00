// A trace of several processes: each writes its own file, rank 0 makes one of them at the end.
#pragma once

#include "actors/ranks/bundle.hpp"
#include "actors/trace/recorder.hpp"

namespace penstock::actors {

/// In a single process: the trace file itself. In a job rank r records into FILE.rankR; on close the files go to rank
/// 0, which merges them on its own clock into FILE. What a run leaves that fails are the ranks' files, for `penstock
/// trace merge`.
class trace_files {
public:
  /// Throws penstock::error when the file cannot be opened.
  trace_files(std::filesystem::path file, trace_header header, const job* ranks);
  trace_recorder& recorder() { return *recorder_; }
  struct result {
    std::int64_t dropped = 0; ///< records; on rank 0 those of all ranks
    std::string failure;      ///< why the trace is not whole; the run has trained all the same
  };
  /// All ranks call it.
  result close(std::int64_t minibatches, bundle_transfers* transfers);

private:
  void close_own(std::int64_t minibatches, result& r);
  void gather(bundle_transfers& transfers, result& r);

  std::filesystem::path file_;
  std::filesystem::path own_;
  const job* ranks_;
  std::unique_ptr<trace_recorder> recorder_;
};

} // namespace penstock::actors
