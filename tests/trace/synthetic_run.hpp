// Histories without a run: the simulator's spans as the records that a perfect runtime would leave.
#pragma once

#include "actors/trace/record.hpp"
#include "planner/schedule.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace penstock::actors {

struct synthetic_run {
  trace_header header;
  std::vector<trace_record> records; ///< in order of begin

  /// The place of a record. Fails the test when there is none.
  trace_record& find(span_kind kind, int stage, std::int64_t minibatch, int microbatch = -1, int replica = -1);
  void erase(const trace_record& r);
  /// Records it all and closes the file.
  void write(const std::filesystem::path& file) const;
};

/// One stretch for each count in `stretchs`, with a pause between; a forward takes 1000 ns, a backward 2000, an update
/// 100. Messages to the neighbours have 64 bytes and take no time.
synthetic_run make_run(const planner::schedule_request& request, const std::vector<std::int64_t>& stretchs);

/// Runs of make_run one after another, each under the next plan: minibatches, stretches and times go on, versions do
/// not.
synthetic_run
make_changing_run(const std::vector<std::pair<planner::schedule_request, std::vector<std::int64_t>>>& epochs);

/// Stages with so many replicas each, and a credit of 1 where none is given.
void set_stages(trace_header& header, const std::vector<int>& replicas, const std::vector<std::int64_t>& credits = {});
/// By stage and replica; {}: one process.
void set_ranks(trace_header& header, const std::vector<std::vector<int>>& ranks);
/// "conv1 .. fc1" for each stage.
void set_layers(trace_header& header, const std::vector<std::string>& layers);

/// A file that goes with its test.
class scratch_file {
public:
  explicit scratch_file(const std::string& name);
  ~scratch_file();
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string bytes() const;
  void replace(const std::string& bytes) const;

private:
  std::filesystem::path path_;
};

} // namespace penstock::actors
