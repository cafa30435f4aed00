// A checkpoint on a thread of its own.
#include "actors/checkpoint_writer.hpp"

namespace penstock::actors {

checkpoint_writer::checkpoint_writer(std::filesystem::path dir,
                                     std::function<void(const std::filesystem::path&, std::int64_t)> written,
                                     std::function<void()> failed)
    : dir_(std::move(dir)), written_(std::move(written)), failed_(std::move(failed)) {}

// A checkpoint that has begun is worth finishing, also when the run has failed.
checkpoint_writer::~checkpoint_writer() {
  if (running_.valid()) running_.wait();
}

void checkpoint_writer::start(std::vector<stage_snapshot> stages, checkpoint_position at) {
  finish();
  running_ = std::async(std::launch::async, [this, all = std::move(stages), where = std::move(at)] {
    try {
      written_(write_checkpoint(all, where, dir_), where.step);
    } catch (...) {
      failed_();
      throw;
    }
  });
}

void checkpoint_writer::finish() {
  if (running_.valid()) running_.get();
}

} // namespace penstock::actors
