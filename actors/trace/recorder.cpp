// Rings between recording threads and the one thread that writes the trace file.
#include "actors/trace/recorder.hpp"

#include "actors/trace/encoder.hpp"
#include "actors/trace/record_contract.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace penstock::actors {

namespace {

constexpr std::size_t ring_records = 16'384; // a power of two; 1.2 MB
constexpr std::size_t cache_line = 64;
constexpr auto drain_period = std::chrono::milliseconds(100);
// A span may reach its ring a little after its end; what is younger than this waits for the next drain, so that spans
// of several threads are written in the order of their ends.
constexpr std::int64_t settle_ns = 20'000'000;

/// Single producer (the thread that holds it), single consumer (the writer). Counters only grow.
struct ring {
  alignas(cache_line) std::atomic<std::uint64_t> head{0}; // records accepted
  std::uint64_t known_tail = 0;                           // the producer's last look at tail
  std::atomic<std::int64_t> dropped{0};
  alignas(cache_line) std::atomic<std::uint64_t> tail{0}; // records taken out
  alignas(cache_line) std::atomic<bool> held{true};       // by a living thread; a free ring is used again
  std::array<trace_record, ring_records> records;
};

/// The ring this thread records into, and whose it is.
struct thread_slot {
  std::uint64_t recorder = 0;
  std::shared_ptr<ring> mine;
  ~thread_slot() { release(); }
  void release() {
    if (mine) mine->held.store(false, std::memory_order_release);
    mine.reset();
  }
};

thread_local thread_slot slot;
std::atomic<std::uint64_t> recorders{0};

struct close_file {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

} // namespace

struct trace_recorder::implementation {
  implementation(std::filesystem::path path, trace_header header)
      : file_name(std::move(path)), clock_offset_ns(header.clock_offset_ns), known(header), encoder(std::move(header)),
        id(recorders.fetch_add(1) + 1) {
    if (std::error_code none; std::filesystem::is_fifo(file_name, none)) // opening it would wait for a reader
      throw error("cannot write trace file '" + file_name.string() + "': it is a pipe");
    file.reset(std::fopen(file_name.c_str(), "wb"));
    if (!file)
      throw error("cannot write trace file '" + file_name.string() + "': " + std::generic_category().message(errno));
    std::setvbuf(file.get(), nullptr, _IONBF, 0); // whole batches are handed over at once
    encoder.begin(bytes, now_ns(), static_cast<std::int32_t>(::getpid()));
    write();
    thread = std::thread([this] { run(); });
  }

  ring& ring_of_this_thread() {
    if (slot.recorder != id || !slot.mine) adopt();
    return *slot.mine;
  }

  void adopt() {
    slot.release();
    slot.recorder = id;
    const std::scoped_lock lock(mutex);
    for (auto& r : rings) {
      bool held = false;
      if (!r->held.compare_exchange_strong(held, true, std::memory_order_acquire)) continue;
      r->known_tail = r->tail.load(std::memory_order_acquire);
      if (r->head.load(std::memory_order_relaxed) - r->known_tail <= ring_records / 4) {
        slot.mine = r;
        return;
      }
      r->held.store(false, std::memory_order_release); // still full of its last thread's records
    }
    slot.mine = rings.emplace_back(std::make_shared<ring>());
  }

  void record(const trace_record& r) {
    ring& to = ring_of_this_thread();
    const std::uint64_t head = to.head.load(std::memory_order_relaxed);
    if (head - to.known_tail >= ring_records / 2) {
      to.known_tail = to.tail.load(std::memory_order_acquire);
      const std::uint64_t waiting = head - to.known_tail;
      if (waiting >= ring_records / 2 && !wanted.exchange(true, std::memory_order_relaxed)) wake.notify_one();
      if (waiting >= ring_records) {
        to.dropped.store(to.dropped.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    to.records[head % ring_records] = r;
    to.head.store(head + 1, std::memory_order_release);
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      // A notice lost between the test and the wait costs one period at most: record() takes no lock.
      wake.wait_for(lock, drain_period, [&] { return stopping || wanted.load(std::memory_order_relaxed); });
      wanted.store(false, std::memory_order_relaxed);
      const auto sources = rings;
      lock.unlock();
      const std::int64_t until = now_ns() - settle_ns;
      if (encoder.set_clock_offset(clock_offset_ns.load(std::memory_order_relaxed)))
        encoder.restate(bytes, now_ns()); // a file that is never closed has the newest offset too
      drain(sources);
      take_changes();
      write_pending(until);
      lock.lock();
    }
  }

  void drain(const std::vector<std::shared_ptr<ring>>& sources) {
    for (const auto& r : sources) {
      const std::uint64_t head = r->head.load(std::memory_order_acquire);
      std::uint64_t tail = r->tail.load(std::memory_order_relaxed);
      for (; tail != head; ++tail)
        pending.push_back(r->records[tail % ring_records]);
      r->tail.store(tail, std::memory_order_release);
    }
  }

  void change_plan(trace_plan_epoch next) {
    const std::scoped_lock lock(mutex);
    auto with = known;
    with.changes.push_back(next);
    check_header(with);
    known = std::move(with);
    changes.push_back(std::move(next));
  }

  /// To be called after drain(): a record under a new plan came into its ring after the plan was announced, so whoever
  /// holds the record finds the plan.
  void take_changes() {
    std::vector<trace_plan_epoch> taken;
    {
      const std::scoped_lock lock(mutex);
      taken.swap(changes);
    }
    for (auto& next : taken)
      encoder.change_plan(bytes, std::move(next));
    if (!taken.empty()) encoder.restate(bytes, now_ns());
  }

  /// Writes what ended by `until`, in the order of ends.
  void write_pending(std::int64_t until) {
    const auto young =
        std::stable_partition(pending.begin(), pending.end(), [&](const auto& r) { return r.end_ns <= until; });
    std::stable_sort(pending.begin(), young, comes_before);
    for (auto r = pending.begin(); r != young; ++r)
      encoder.add(bytes, *r);
    pending.erase(pending.begin(), young);
    left_out.store(encoder.left_out(), std::memory_order_relaxed);
    write();
  }

  void write() {
    if (failure == 0 && !bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size())
      failure = errno != 0 ? errno : EIO;
    bytes.clear();
  }

  /// Stops the writer and writes the rest. Returns 0 or the errno of the first byte refused.
  int finish(std::int64_t minibatches, bool complete) {
    std::vector<std::shared_ptr<ring>> sources;
    {
      const std::scoped_lock lock(mutex);
      stopping = true;
      sources = rings;
    }
    wake.notify_one();
    thread.join();
    drain(sources);
    take_changes();
    write_pending(std::numeric_limits<std::int64_t>::max());
    encoder.set_clock_offset(clock_offset_ns.load(std::memory_order_relaxed));
    encoder.end(bytes, now_ns(), minibatches, not_taken(), complete);
    write();
    if (std::fclose(file.release()) != 0 && failure == 0) failure = errno;
    return failure;
  }

  std::int64_t dropped() const { return not_taken() + left_out.load(std::memory_order_relaxed); }

  /// Records for which the rings had no room.
  std::int64_t not_taken() const {
    const std::scoped_lock lock(mutex);
    std::int64_t sum = 0;
    for (const auto& r : rings)
      sum += r->dropped.load(std::memory_order_relaxed);
    return sum;
  }

  std::int64_t recorded() const {
    const std::scoped_lock lock(mutex);
    std::uint64_t sum = 0;
    for (const auto& r : rings)
      sum += r->head.load(std::memory_order_acquire);
    return static_cast<std::int64_t>(sum);
  }

  std::filesystem::path file_name;
  std::unique_ptr<std::FILE, close_file> file;
  std::atomic<std::int64_t> clock_offset_ns;
  trace_header known; // with all changes that were announced
  trace_encoder encoder;
  const std::uint64_t id;
  mutable std::mutex mutex; // guards rings, stopping, known and changes
  std::condition_variable wake;
  std::vector<std::shared_ptr<ring>> rings;
  bool stopping = false;
  std::vector<trace_plan_epoch> changes; // announced and not yet written
  std::atomic<bool> wanted{false};
  std::atomic<std::int64_t> left_out{0}; // records that no file can hold
  // Of the writer thread while it runs, afterwards of whoever closes.
  std::vector<trace_record> pending;
  std::string bytes;
  int failure = 0;
  std::thread thread;
};

trace_recorder::trace_recorder(std::filesystem::path file, trace_header header)
    : self_(std::make_unique<implementation>(std::move(file), std::move(header))) {}

trace_recorder::~trace_recorder() {
  if (self_->file) self_->finish(-1, false);
}

void trace_recorder::record(const trace_record& r) {
  self_->record(r);
}

void trace_recorder::close(std::int64_t minibatches) {
  if (!self_->file) return;
  if (const int failure = self_->finish(minibatches, true); failure != 0)
    throw error("cannot write trace file '" + self_->file_name.string() +
                "': " + std::generic_category().message(failure));
}

void trace_recorder::set_clock_offset(std::int64_t ns) {
  self_->clock_offset_ns.store(ns, std::memory_order_relaxed);
}

void trace_recorder::change_plan(trace_plan_epoch next) {
  self_->change_plan(std::move(next));
}

std::int64_t trace_recorder::dropped() const {
  return self_->dropped();
}
std::int64_t trace_recorder::recorded() const {
  return self_->recorded();
}

std::int64_t trace_recorder::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace penstock::actors
