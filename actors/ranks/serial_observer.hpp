// Keeps the promise that a run's observer is called by one thread at a time, and on rank 0 only.
#pragma once

#include "actors/trainer.hpp"

#include <mutex>

namespace penstock::actors {

class serial_observer final : public run_observer {
public:
  /// `silent`: another rank tells the user.
  serial_observer(run_observer& to, bool silent) : to_(to), silent_(silent) {}
  void on_start(const run_summary& plan, std::int64_t total_steps) override {
    pass([&] { to_.on_start(plan, total_steps); });
  }
  void on_step(const step_event& e) override {
    pass([&] { to_.on_step(e); });
  }
  void on_eval(const eval_event& e) override {
    pass([&] { to_.on_eval(e); });
  }
  void on_results(const batch_results& r) override {
    pass([&] { to_.on_results(r); });
  }
  void on_checkpoint(const std::filesystem::path& folder, std::int64_t step) override {
    pass([&] { to_.on_checkpoint(folder, step); });
  }
  void on_note(const std::string& line) override {
    pass([&] { to_.on_note(line); });
  }
  void on_progress(const part_progress& p) override {
    pass([&] { to_.on_progress(p); });
  }

private:
  template <class Call>
  void pass(Call call) {
    if (silent_) return;
    const std::lock_guard lock(mutex_);
    call();
  }
  run_observer& to_;
  bool silent_;
  std::mutex mutex_;
};

} // namespace penstock::actors
