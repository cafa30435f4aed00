// The lock first, so that what is found there stays true.
#include "apps/runner/checkpoint_folder.hpp"

#include "actors/checkpoint/checkpoint.hpp"
#include "apps/runner/output_files.hpp"
#include "kernels/check.hpp"

namespace penstock::apps {

namespace {

using namespace std::chrono_literals;

// A process of the job that this one restarts may still be ending, on another host.
constexpr auto restart_patience = 10s;

} // namespace

settled_folder settle_checkpoint_folder(app_options options, int restarts, const app_job* job,
                                        const actors::run_control& control) {
  settled_folder settled{std::move(options), nullptr};
  auto& o = settled.options;
  const auto& folder = o.run.checkpoint;
  if (folder.empty()) return settled;
  const bool is_first = job == nullptr || job->is_first();
  if (is_first && !o.run.eval_only && !o.dry_run) {
    check_output_folder("--checkpoint", folder);
    settled.lock = std::make_unique<actors::checkpoint_lock>(folder, restarts > 0 ? restart_patience : 0s,
                                                             [&control] { return control.stop.load(); });
  }
  if (o.run.resume || (o.run.eval_only && !o.resume_auto)) return settled;
  bool is_there = is_first && actors::has_checkpoint(folder);
  if (job != nullptr)
    is_there =
        job->ranks().control.broadcast("has a checkpoint", is_there ? "yes" : "no", job->ranks().patience) == "yes";
  if (is_there && restarts == 0 && !o.resume_auto) throw usage_error(actors::refusal_of_used(folder));
  o.run.resume = is_there;
  if (is_there) o.run.weights.clear();
  return settled;
}

} // namespace penstock::apps
