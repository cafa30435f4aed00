// Reads the ranks' files, puts their clocks right, and writes the records as one trace.
#include "actors/trace/merge.hpp"

#include "actors/trace/causality.hpp"
#include "actors/trace/encoder.hpp"
#include "actors/trace/header_json.hpp"
#include "actors/trace/plan_epochs.hpp"
#include "actors/trace/reader.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace penstock::actors {

namespace {

// Offsets measured between two ranks of one host differ by far less. Hosts of one name that are further apart are two
// machines, or containers with clocks of their own.
constexpr std::int64_t same_clock_ns = 1'000'000'000;
constexpr std::int64_t most_time_ns = std::int64_t{1} << 58; // nine years: sums and differences cannot overflow
constexpr std::size_t batch_bytes = std::size_t{1} << 20U;

/// What is the same in all files of a run, as text; the changes of plan apart, which a file that breaks off may lack.
std::string common_part(trace_header h) {
  h.changes.clear();
  h.minibatches = 0;
  h.dropped = 0;
  h.complete = false;
  h.rank = -1;
  h.clock_offset_ns = 0;
  h.missing.clear();
  return to_json(h);
}

/// One rank's file without its records.
struct rank_file {
  std::filesystem::path path;
  trace_header header;
  std::string missing;
};

/// The files read, their records in one list.
class rank_files {
public:
  explicit rank_files(const std::vector<std::filesystem::path>& files) {
    if (files.empty()) throw error("no trace to merge");
    for (const auto& file : files)
      read(file);
    if (by_rank.empty()) throw error(unreadable_.front());
    if (!unreadable_.empty() && static_cast<int>(by_rank.size()) == rank_count(first()))
      throw error(unreadable_.front()); // a file too many
    for (auto& [rank, file] : by_rank)
      file.header.changes = changes_;
  }

  const trace_header& first() const { return by_rank.begin()->second.header; }

  /// What the files do not tell, as of trace_file::missing.
  std::string missing() const {
    std::string text;
    const auto add = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
    std::int64_t most = -1;
    for (const auto& [rank, file] : by_rank)
      most = std::max(most, file.header.minibatches);
    for (int rank = 0; rank < rank_count(first()); ++rank) {
      const auto at = by_rank.find(rank);
      const auto name = "rank " + std::to_string(rank);
      if (at == by_rank.end())
        add("no trace of " + name);
      else if (!at->second.missing.empty())
        add(name + ": " + at->second.missing);
      else if (at->second.header.minibatches != most)
        add(name + " ended at minibatch " + std::to_string(at->second.header.minibatches) + ", another at " +
            std::to_string(most));
    }
    for (const auto& why : unreadable_)
      add(why);
    return text;
  }

  std::map<int, rank_file> by_rank;
  std::vector<trace_record> records;

private:
  void read(const std::filesystem::path& path) {
    std::optional<trace_file> file;
    try {
      file = read_trace(path);
    } catch (const error& refused) {
      unreadable_.emplace_back(refused.what());
      return;
    }
    const auto& h = file->header;
    const auto name = "trace '" + path.string() + "'";
    if (is_merged(h)) throw error(name + " is a merged one, wanted a rank's own");
    if (h.rank < 0 || !names_ranks(h)) throw error(name + " is of a run in one process: nothing to merge");
    if (!by_rank.empty() && common_part(h) != common_part(first()))
      throw error(name + " is not of the same run as '" + by_rank.begin()->second.path.string() + "'");
    take_changes(h, !h.complete, name);
    if (const auto known = by_rank.find(h.rank); known != by_rank.end())
      throw error(name + " and '" + known->second.path.string() + "' are both of rank " + std::to_string(h.rank));
    for (auto& r : file->records) {
      r.rank = static_cast<std::int16_t>(h.rank);
      if (r.end_ns > most_time_ns) throw error(name + " holds a time of " + std::to_string(r.end_ns) + " ns");
      records.push_back(r);
    }
    by_rank.emplace(h.rank, rank_file{path, std::move(file->header), std::move(file->missing)});
  }

  /// All files tell the same changes of plan; one that breaks off may end before the last of them.
  void take_changes(const trace_header& h, bool breaks_off, const std::string& name) {
    const bool is_more = h.changes.size() > changes_.size();
    const bool may_differ = is_more ? by_rank.empty() || all_break_off_ : breaks_off;
    const auto& longer = is_more ? h.changes : changes_;
    const auto& shorter = is_more ? changes_ : h.changes;
    if (!continues(longer, shorter) || (longer.size() != shorter.size() && !may_differ))
      throw error(name + " is not of the same run as '" + by_rank.begin()->second.path.string() +
                  "': its changes of plan are others");
    if (is_more) {
      // Whoever had the list of before was cut off; from now on that is so of none that has this one.
      all_break_off_ = breaks_off;
      changes_ = h.changes;
    } else if (h.changes.size() == changes_.size()) {
      all_break_off_ = breaks_off && (by_rank.empty() || all_break_off_);
    }
  }

  std::vector<trace_plan_epoch> changes_; // the longest list of any file
  bool all_break_off_ = false;            // all files with that list break off
  std::vector<std::string> unreadable_;
};

/// Which rank reads which clock, and what was measured of it. Clock 0 is rank 0's.
struct clock_table {
  std::vector<int> of_rank;
  std::vector<std::int64_t> offsets_ns; ///< by clock
};

/// Ranks of one host read one clock, though each measured it a little differently: the middle one counts.
clock_table clocks_of(const rank_files& files) {
  const auto& hosts = files.first().hosts;
  std::map<std::string, std::vector<std::pair<std::int64_t, int>>> by_host; // offsets and ranks
  clock_table clocks;
  clocks.of_rank.assign(static_cast<std::size_t>(rank_count(files.first())), 0);
  clocks.offsets_ns.push_back(0);
  for (const auto& [rank, file] : files.by_rank) {
    const auto at = static_cast<std::size_t>(rank);
    const auto offset = rank == 0 ? 0 : file.header.clock_offset_ns;
    const bool is_known = at < hosts.size();
    if (rank == 0 || (is_known && hosts[at] == hosts[0] && std::abs(offset) < same_clock_ns)) continue;
    by_host[is_known ? hosts[at] : "rank " + std::to_string(rank)].emplace_back(offset, rank);
  }
  for (auto& [host, measured] : by_host) {
    std::sort(measured.begin(), measured.end());
    for (auto begin = measured.begin(); begin != measured.end();) {
      auto end = std::next(begin);
      while (end != measured.end() && end->first - std::prev(end)->first < same_clock_ns)
        ++end;
      for (auto at = begin; at != end; ++at)
        clocks.of_rank[static_cast<std::size_t>(at->second)] = static_cast<int>(clocks.offsets_ns.size());
      clocks.offsets_ns.push_back((begin + (end - begin) / 2)->first);
      begin = end;
    }
  }
  const auto count = clocks.offsets_ns.size();
  if (count > most_clocks) throw error("traces of " + std::to_string(count) + " clocks, at most 4096");
  return clocks;
}

/// Adds to every record's times what its rank's clock needs.
void shift(std::vector<trace_record>& records, const std::vector<std::int64_t>& by_clock, const clock_table& clocks) {
  for (auto& r : records) {
    const auto by = by_clock[static_cast<std::size_t>(clocks.of_rank[static_cast<std::size_t>(r.rank)])];
    r.begin_ns += by;
    r.end_ns += by;
  }
}

void write(const std::filesystem::path& out, const trace_header& header, const std::vector<trace_record>& records) {
  atomic_file file(out);
  std::string bytes;
  trace_encoder encoder(header);
  encoder.begin(bytes, records.empty() ? 0 : records.front().begin_ns, 0);
  for (const auto& r : records) {
    encoder.add(bytes, r);
    if (bytes.size() < batch_bytes) continue;
    file.write(bytes);
    bytes.clear();
  }
  encoder.end(bytes, records.empty() ? 0 : records.back().end_ns, header.minibatches, header.dropped, header.complete);
  file.write(bytes);
  file.commit();
}

trace_header merged_header(const rank_files& files, std::int64_t conflict_ns) {
  auto header = files.first();
  header.rank = -1;
  header.clock_offset_ns = 0;
  header.clock_conflict_ns = conflict_ns;
  header.missing = files.missing();
  header.complete = header.missing.empty();
  header.dropped = 0;
  for (const auto& [rank, file] : files.by_rank) {
    header.minibatches = std::max(header.minibatches, file.header.minibatches);
    header.dropped += file.header.dropped;
  }
  return header;
}

/// A trace has no times before 0, which a clock that is not quite right may give to what it saw first: then all move.
std::int64_t lift_above_zero(std::vector<trace_record>& records) {
  std::int64_t least = 0;
  for (const auto& r : records)
    least = std::min(least, r.begin_ns);
  for (auto& r : records) {
    r.begin_ns -= least;
    r.end_ns -= least;
  }
  return -least;
}

void check_output(const std::vector<std::filesystem::path>& files, const std::filesystem::path& out) {
  std::error_code none;
  for (const auto& file : files)
    if (std::filesystem::equivalent(file, out, none))
      throw error("the merged trace '" + out.string() + "' would replace a rank's own");
}

clock_corrections corrections_of(const rank_files& files, const clock_table& clocks) {
  const auto bounds = clock_bounds(files.first(), files.records, clocks.of_rank);
  for (const auto& b : bounds)
    if (b.slack_ns < -most_clock_slack_ns)
      throw error("the ranks' clocks are days apart: their offsets were not measured");
  return correct_clocks(static_cast<int>(clocks.offsets_ns.size()), bounds);
}

} // namespace

merged_trace merge_traces(const std::vector<std::filesystem::path>& files, const std::filesystem::path& out) {
  check_output(files, out);
  rank_files read(files);
  auto& records = read.records;
  const auto clocks = clocks_of(read);
  shift(records, clocks.offsets_ns, clocks);
  const auto corrected = corrections_of(read, clocks);
  shift(records, corrected.ns, clocks);
  std::sort(records.begin(), records.end(), comes_before);
  const auto lifted = lift_above_zero(records);

  merged_trace result;
  result.header = merged_header(read, corrected.conflict_ns);
  result.records = static_cast<std::int64_t>(records.size());
  result.shifts_ns.assign(clocks.of_rank.size(), 0);
  for (const auto& [rank, file] : read.by_rank) {
    const auto clock = static_cast<std::size_t>(clocks.of_rank[static_cast<std::size_t>(rank)]);
    result.shifts_ns[static_cast<std::size_t>(rank)] = clocks.offsets_ns[clock] + corrected.ns[clock] + lifted;
  }
  for (const auto ns : corrected.ns)
    result.most_corrected_ns = std::max(result.most_corrected_ns, std::abs(ns));
  write(out, result.header, records);
  return result;
}

} // namespace penstock::actors
