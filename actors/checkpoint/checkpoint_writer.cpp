// A checkpoint on a thread of its own.
#include "actors/checkpoint/checkpoint_writer.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace penstock::actors {

namespace {

constexpr std::chrono::minutes patience{10}; // 100 GB on a disk of 170 MB/s

} // namespace

checkpoint_writer::checkpoint_writer(checkpoint_lock& folder,
                                     std::function<void(const std::filesystem::path&, std::int64_t)> written,
                                     std::function<void()> failed)
    : lock_(folder), written_(std::move(written)), failed_(std::move(failed)) {}

// A checkpoint that has begun is worth finishing, also when the run has failed. A disk that does not answer cannot be
// waited out.
checkpoint_writer::~checkpoint_writer() {
  if (!running_.valid() || running_.wait_for(patience) == std::future_status::ready) return;
  std::fprintf(stderr, "penstock: checkpoint %s is not written after %d minutes; leaving\n",
               in_quotes(lock_.folder().native()).c_str(), static_cast<int>(patience.count()));
  std::_Exit(1);
}

void checkpoint_writer::start(std::vector<stage_snapshot> stages, checkpoint_position at) {
  finish();
  running_ = std::async(std::launch::async, [this, all = std::move(stages), where = std::move(at)] {
    try {
      lock_.keep();
      written_(write_checkpoint(all, where, lock_.folder()), where.step);
    } catch (...) {
      failed_();
      throw;
    }
  });
}

void checkpoint_writer::finish() {
  if (!running_.valid()) return;
  if (running_.wait_for(patience) != std::future_status::ready)
    throw error("[checkpoint] '" + lock_.folder().string() + "' is not written after " +
                std::to_string(patience.count()) + " minutes");
  running_.get();
}

} // namespace penstock::actors
