// Plays schedules stretch by stretch and notes what each replica did.
#include "tests/trace/synthetic_run.hpp"

#include "actors/trace/recorder.hpp"
#include "planner/simulate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <unistd.h>
#include <utility>

namespace penstock::actors {

namespace {

/// The message that a forward or backward sends on, if a stage takes it; it arrives at once. `tau`: of the minibatch.
void add_message(std::vector<trace_record>& records, const trace_record& r, const planner::schedule& schedule,
                 std::int64_t tau) {
  const auto stages = static_cast<int>(schedule.stages.size());
  const int peer = r.kind == span_kind::forward ? r.stage + 1 : makes_input_gradient(r) ? r.stage - 1 : -1;
  if (peer < 0 || peer >= stages) return;
  if (peer < r.stage && schedule.is_frozen(peer)) return; // it takes no gradient
  trace_record sent = r;
  sent.kind = span_kind::send;
  sent.begin_ns = sent.end_ns = r.end_ns;
  sent.peer = static_cast<std::int16_t>(peer);
  sent.bytes = 64;
  records.push_back(sent);
  auto received = sent;
  received.kind = span_kind::receive;
  std::swap(received.stage, received.peer);
  received.replica = static_cast<std::int16_t>(planner::replica_of(schedule, peer, tau, r.microbatch));
  records.push_back(received);
}

} // namespace

void set_stages(trace_header& header, const std::vector<int>& replicas, const std::vector<std::int64_t>& credits) {
  header.plan.stages.clear();
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    auto& stage = header.plan.stages.emplace_back();
    stage.replicas = replicas[s];
    stage.in_flight = credits.empty() ? 1 : credits.at(s);
  }
}

void set_ranks(trace_header& header, const std::vector<std::vector<int>>& ranks) {
  for (std::size_t s = 0; s < header.plan.stages.size(); ++s)
    header.plan.stages[s].ranks = ranks.empty() ? std::vector<int>() : ranks.at(s);
}

void set_layers(trace_header& header, const std::vector<std::string>& layers) {
  for (std::size_t s = 0; s < header.plan.stages.size(); ++s)
    set_layers(header.plan.stages[s], layers.at(s));
}

synthetic_run make_run(const planner::schedule_request& request, const std::vector<std::int64_t>& stretchs) {
  synthetic_run run;
  const auto resolved = planner::resolve_schedule(request);
  run.header.model = "synthetic";
  run.header.plan.schedule = resolved.name;
  run.header.plan.microbatches = resolved.microbatches;
  run.header.plan.window = resolved.window;
  run.header.plan.chunks = resolved.chunks;
  run.header.stashes_weights = resolved.stashes_weights;
  run.header.first_minibatch = 0;
  run.header.complete = true;
  for (std::size_t s = 0; s < resolved.stages.size(); ++s) {
    auto& stage = run.header.plan.stages.emplace_back();
    stage.replicas = resolved.stages[s].replicas;
    stage.in_flight = resolved.stages[s].credit;
    stage.update_lag = resolved.stages[s].update_lag;
    stage.first_layer = stage.last_layer = "layer" + std::to_string(s);
  }
  if (const auto first = static_cast<std::size_t>(resolved.frozen_stages); first > 0) {
    run.header.plan.first_active = run.header.plan.stages[first].first_layer;
    run.header.plan.ahead = resolved.ahead;
  }
  std::vector<std::int64_t> versions(resolved.stages.size(), 0);
  std::int64_t clock = 1'000'000;
  for (std::size_t id = 0; id < stretchs.size(); ++id) {
    auto part = request;
    part.minibatches = stretchs[id];
    const auto schedule = planner::resolve_schedule(part);
    const std::vector<planner::stage_times> times(schedule.stages.size(),
                                                  {.forward = 1000, .backward = 2000, .update = 100});
    const auto played = planner::simulate(schedule, times);
    auto after = versions;
    for (const auto& span : played.spans) {
      const auto base = versions[static_cast<std::size_t>(span.stage)];
      const auto replicas = schedule.stages[static_cast<std::size_t>(span.stage)].replicas;
      trace_record r;
      r.kind = span_of(span.what.kind);
      r.begin_ns = clock + std::llround(span.begin);
      r.end_ns = clock + std::llround(span.end);
      r.stage = static_cast<std::int16_t>(span.stage);
      r.replica = static_cast<std::int16_t>(span.replica);
      r.stretch = static_cast<std::int32_t>(id);
      r.mailbox_depth = static_cast<std::int16_t>(span.what.minibatch % 3);
      r.minibatch = run.header.minibatches + span.what.minibatch;
      if (r.kind == span_kind::update) {
        r.minibatch =
            run.header.minibatches + span.what.minibatch * (schedule.updates.per_minibatch_group ? replicas : 1);
        r.version_written = base + span.what.version;
        r.version_read = r.version_written - 1;
        after[static_cast<std::size_t>(span.stage)] =
            std::max(after[static_cast<std::size_t>(span.stage)], r.version_written);
      } else {
        r.microbatch = span.what.microbatch;
        r.version_read = base + span.what.version;
      }
      run.records.push_back(r);
      add_message(run.records, r, schedule, span.what.minibatch);
    }
    versions = after;
    clock += std::llround(played.makespan) + 5000;
    run.header.minibatches += stretchs[id];
  }
  std::stable_sort(run.records.begin(), run.records.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return run;
}

synthetic_run
make_changing_run(const std::vector<std::pair<planner::schedule_request, std::vector<std::int64_t>>>& epochs) {
  synthetic_run whole;
  std::int32_t stretches = 0;
  std::int64_t end_ns = 0;
  for (const auto& [request, stretchs] : epochs) {
    const auto part = make_run(request, stretchs);
    const auto minibatches = whole.header.minibatches;
    if (stretches == 0)
      whole.header = part.header;
    else
      whole.header.changes.push_back(
          {.first_stretch = stretches, .first_minibatch = minibatches, .plan = part.header.plan});
    const auto before_ns = end_ns;
    for (auto r : part.records) {
      r.begin_ns += before_ns;
      r.end_ns += before_ns;
      r.minibatch += minibatches;
      r.stretch += stretches;
      end_ns = std::max(end_ns, r.end_ns);
      whole.records.push_back(r);
    }
    stretches += static_cast<std::int32_t>(stretchs.size());
    whole.header.minibatches = minibatches + part.header.minibatches;
  }
  return whole;
}

trace_record& synthetic_run::find(span_kind kind, int stage, std::int64_t minibatch, int microbatch, int replica) {
  const auto at = std::find_if(records.begin(), records.end(), [&](const trace_record& r) {
    return r.kind == kind && r.stage == stage && r.minibatch == minibatch &&
           (microbatch < 0 || r.microbatch == microbatch) && (replica < 0 || r.replica == replica);
  });
  if (at == records.end()) throw std::out_of_range("no such record in the synthetic run");
  return *at;
}

void synthetic_run::erase(const trace_record& r) {
  records.erase(records.begin() + (&r - records.data()));
}

void synthetic_run::write(const std::filesystem::path& file) const {
  auto first = header;
  first.changes.clear();
  first.complete = false;
  trace_recorder recorder(file, first);
  auto change = header.changes.begin();
  const auto change_before = [&](std::int64_t stretch) {
    for (; change != header.changes.end() && change->first_stretch <= stretch; ++change)
      recorder.change_plan(*change);
  };
  for (const auto& r : records) {
    change_before(r.stretch);
    recorder.record(r);
  }
  change_before(std::numeric_limits<std::int64_t>::max());
  recorder.close(header.minibatches);
}

scratch_file::scratch_file(const std::string& name) {
  static std::atomic<int> made{0};
  path_ = std::filesystem::temp_directory_path() /
          ("penstock-" + std::to_string(::getpid()) + "-" + std::to_string(++made) + "-" + name);
}

scratch_file::~scratch_file() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::string scratch_file::bytes() const {
  std::ifstream in(path_, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void scratch_file::replace(const std::string& bytes) const {
  std::ofstream(path_, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

} // namespace penstock::actors
