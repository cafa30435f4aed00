// What a span costs the thread that records it: `bench_trace`, aim below 100 ns without the clock.
#include "actors/trace/recorder.hpp"

#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>
#include <unistd.h>

namespace {

namespace trace = penstock::actors;

constexpr int batch = 4'000;
constexpr int batches = 40; // each opens a file, so they are few

/// A span as a stage records it. Batches of 4,000 fit a ring, and the writer empties it while the clock is stopped, so
/// that no record is dropped: a drop is cheaper than a record.
void record_span(benchmark::State& state, bool reads_clock) {
  const auto file = std::filesystem::temp_directory_path() / ("bench-trace-" + std::to_string(::getpid()) + ".pftrace");
  trace::trace_header header;
  header.plan.schedule = "pipedream";
  header.plan.stages = {{.in_flight = 1}};
  {
    trace::trace_record r;
    r.stage = 0;
    std::int64_t dropped = 0;
    while (state.KeepRunningBatch(batch)) {
      state.PauseTiming();
      trace::trace_recorder recorder(file, header);
      recorder.record(r); // makes this thread's ring
      state.ResumeTiming();
      for (int i = 0; i < batch; ++i) {
        if (reads_clock) {
          r.begin_ns = trace::trace_recorder::now_ns();
          r.end_ns = trace::trace_recorder::now_ns();
        }
        r.minibatch = i;
        recorder.record(r);
      }
      state.PauseTiming();
      recorder.close(0);
      dropped += recorder.dropped();
      state.ResumeTiming();
    }
    state.counters["dropped"] = static_cast<double>(dropped);
  }
  std::filesystem::remove(file);
}

BENCHMARK_CAPTURE(record_span, record, false)->Iterations(batch* batches);
BENCHMARK_CAPTURE(record_span, record_and_two_clock_reads, true)->Iterations(batch* batches);

} // namespace

BENCHMARK_MAIN();
