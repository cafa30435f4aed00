// Runs one job of a stage replica on its stream.
#include "actors/stage_work.hpp"

#include "actors/ranks/wire.hpp"

namespace penstock::actors {

void stage_work::compute(backend& ops, stage_job& job) {
  const auto& parts = context->services.parts;
  job.begin_ns = trace_recorder::now_ns();
  adopt_layouts(ops, job.inputs);
  if (job.what == stage_job::kind::backward) {
    job.outputs = compute_backward(ops, parts, *unit, *own, std::move(job.inputs), *job.weights, *job.record,
                                   *job.gradients, job.layer_done);
    job.gradients.reset();
    job.layer_done = nullptr;
  } else {
    auto result =
        job.what == stage_job::kind::forward
            ? compute_forward(ops, parts, *unit, *own, std::move(job.inputs), job.labels, *job.record)
            : compute_evaluation(ops, parts, *unit, std::move(job.inputs), job.labels, *job.weights, evaluation_states);
    job.outputs = std::move(result.outputs);
    job.metrics = result.metrics;
    // Backward reads the newest weights then; but what is computed again must be what the forward computed.
    if (job.record && !job.stashes_weights && !unit->recomputes) job.record->weights.reset();
  }
  job.record.reset();
  job.weights.reset();
  job.labels = {};
  job.end_ns = trace_recorder::now_ns();
  trace.computed(job);
}

} // namespace penstock::actors
