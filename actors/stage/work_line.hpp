// Work that goes onto a stream behind other work before anybody knows how that ends.
#pragma once

#include "kernels/check.hpp"
#include "kernels/stream.hpp"

#include <atomic>
#include <memory>

namespace penstock::actors {

/// Of one replica's stream. The first piece of work that fails is the cause, and the only one that is told of: what
/// was posted behind it would find half-made inputs, so it does not run, and its completion is dropped.
class work_line {
public:
  /// As stream::post. `check` comes between the work and `done`, in the order of completions, and may throw what is
  /// wrong with the results.
  template <class Work, class Check, class Done>
  static void post(stream& to, const std::shared_ptr<work_line>& line, Work job, Check check, Done done) {
    to.post(
        [line, job = std::move(job)](backend& ops) mutable {
          if (line->is_broken_) throw error("[stream] work behind some that failed");
          try {
            job(ops);
          } catch (...) {
            line->is_broken_ = true;
            throw;
          }
        },
        [line, check = std::move(check), done = std::move(done)](std::exception_ptr failure) mutable {
          if (line->has_told_) return;
          try {
            if (!failure) check();
          } catch (...) {
            failure = std::current_exception();
          }
          if (failure) line->is_broken_ = line->has_told_ = true;
          done(std::move(failure));
        });
  }

private:
  std::atomic<bool> is_broken_{false}; // in the order of work
  std::atomic<bool> has_told_{false};  // in the order of completions, which may come later
};

} // namespace penstock::actors
