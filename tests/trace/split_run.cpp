// Deals the records to the ranks of their replicas and turns the clocks.
#include "tests/trace/split_run.hpp"

#include "planner/machine.hpp"
#include "tools/trace/simulated_trace.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace penstock::actors {

split_run::split_run(const trace_file& whole, std::vector<std::vector<int>> ranks, std::vector<rank_place> places) {
  trace_header header = whole.header;
  set_ranks(header, ranks);
  header.run = "a job";
  for (const auto& place : places)
    header.hosts.push_back(place.host);
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    auto& part = parts.emplace_back();
    part.header = header;
    part.header.rank = static_cast<int>(rank);
    part.header.clock_offset_ns = places[0].clock_ns - places[rank].clock_ns + places[rank].measured_off_ns;
    files_.push_back(std::make_unique<scratch_file>("rank.pftrace"));
  }
  for (auto r : whole.records) {
    const auto rank = static_cast<std::size_t>(std::max(0, rank_of(header, r.stage, r.replica)));
    r.begin_ns += places.at(rank).clock_ns;
    r.end_ns += places.at(rank).clock_ns;
    parts.at(rank).records.push_back(r);
  }
}

void split_run::write() const {
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    parts[rank].write(files_[rank]->path());
}

std::vector<std::filesystem::path> split_run::paths(const std::vector<int>& left_out) const {
  std::vector<std::filesystem::path> all;
  for (int rank = 0; rank < static_cast<int>(files_.size()); ++rank)
    if (std::find(left_out.begin(), left_out.end(), rank) == left_out.end()) all.push_back(path(rank));
  return all;
}

trace_file simulate_ranks(const planner::schedule_request& request, std::int64_t begin_ns, double jitter,
                          std::uint64_t seed, const std::vector<double>& slowness) {
  planner::machine m;
  int device = 0;
  for (const auto count : request.replicas) {
    const double times = m.stages.size() < slowness.size() ? slowness[m.stages.size()] : 1;
    planner::machine_stage stage{.forward_seconds = {1e-3 * times},
                                 .backward_seconds = {2e-3 * times},
                                 .update_seconds = 1e-4,
                                 .output_bytes = {1000},
                                 .all_reduce_bytes = 3000};
    for (int r = 0; r < count; ++r)
      stage.devices.push_back(device++);
    m.stages.push_back(stage);
  }
  m.links = {{.group = device, .bytes_per_second = 4e6, .latency_s = 2.5e-4, .by_reference = false}};
  const auto schedule = planner::resolve_schedule(request);
  const auto run = planner::run_machine(schedule, m, {.jitter = jitter, .seed = seed});
  const auto bytes = encode_simulated_trace(schedule, run, {.model = "toy"});
  std::istringstream in(bytes);
  auto file = read_trace(in, bytes.size(), "trace 'simulated'");
  for (auto& r : file.records) {
    r.begin_ns += begin_ns;
    r.end_ns += begin_ns;
  }
  return file;
}

} // namespace penstock::actors
