// Updates in order.
#include "actors/optimizer/optimizer_core.hpp"

#include "kernels/check.hpp"

#include <utility>

namespace penstock::actors {

optimizer_core::optimizer_core(optimizer_place place, const run_options& options, stage_weights owned,
                               std::unique_ptr<gradient_reducer> reducer)
    : place_(place), who_("optimizer of stage " + std::to_string(place.stage)), options_(options),
      owned_(std::make_shared<stage_weights>(std::move(owned))), reducer_(std::move(reducer)),
      rule_(make_optimizer(options.optimizer)) {}

weights_ptr weights_in_use(const stage_weights& owned, const optimizer& rule) {
  const auto& newest = *owned.newest;
  auto in_use = std::make_shared<weight_set>(weight_set{newest.version, {}});
  bool is_newest = true;
  for (std::size_t i = 0; i < newest.tensors.size(); ++i) {
    in_use->tensors.push_back(rule.in_use(newest.tensors[i], owned.optimizer_states[i]));
    is_newest = is_newest && in_use->tensors.back().raw() == newest.tensors[i].raw();
  }
  return is_newest ? owned.newest : in_use;
}

void optimizer_core::take(gradient_reducer::effects effects, optimizer_effects& out) const {
  for (auto& e : effects)
    std::visit([&](auto& one) { out.emplace_back(std::move(one)); }, e);
}

// -- stretches ---------------------------------------------------------------------

optimizer_effects optimizer_core::on(const begin_training_msg& m) {
  check(begun_ == done_, "a stretch began before the one before was over");
  run_ = m.run;
  plan_for(run_->schedule.minibatches);
  first_version_ = owned_->newest->version;
  begun_ = done_ = 0;
  is_done_ = false;
  factors_.clear();
  std::erase_if(ties_, [&](const auto& of) { return of.second.begin()->second.stretch != run_->number; });
  optimizer_effects out;
  take(reducer_->begin(run_->number), out);
  out.emplace_back(send_weights{{run_->number, place_.stage, 0, owned_->newest}});
  finish_when_done(out);
  return out;
}

optimizer_effects optimizer_core::on(const end_after_msg& m) {
  optimizer_effects out;
  if (!run_ || m.stretch != run_->number) return out;
  plan_for(m.minibatches);
  finish_when_done(out);
  return out;
}

optimizer_effects optimizer_core::on(const lend_weights_msg& m) {
  optimizer_effects out;
  out.emplace_back(send_weights{{m.stretch, place_.stage, 0, weights_in_use(*owned_, *rule_)}});
  return out;
}

void optimizer_core::plan_for(std::int64_t minibatches) {
  auto s = run_->schedule;
  s.minibatches = minibatches;
  planned_ = planner::updates_of(s, place_.stage);
}

void optimizer_core::finish_when_done(optimizer_effects& out) {
  if (is_done_ || done_ < planned_) return;
  is_done_ = true;
  out.emplace_back(updates_are_done{});
}

// -- gradients -----------------------------------------------------------------------

optimizer_effects optimizer_core::on(gradient_share_msg m) {
  optimizer_effects out;
  take(reducer_->take(std::move(m)), out);
  pump(out);
  return out;
}

optimizer_effects optimizer_core::on(gradient_bucket_msg m) {
  optimizer_effects out;
  take(reducer_->take(std::move(m)), out);
  return out;
}

optimizer_effects optimizer_core::on(reduced_msg m) {
  optimizer_effects out;
  take(reducer_->reduced(std::move(m)), out);
  pump(out);
  return out;
}

void optimizer_core::pump(optimizer_effects& out) {
  while (run_ && !unclipped_ && !unshared_) {
    auto sum = reducer_->take_sum(begun_);
    if (!sum) return;
    begin_update(std::move(*sum), out);
  }
}

// -- one update ------------------------------------------------------------------------

// The newest version is the one before: where no replica here holds it, or will look it up, its memory may be written.
void optimizer_core::begin_update(gradient_sum sum, optimizer_effects& out) {
  auto job = std::make_shared<update_work>();
  job->stretch = run_->number;
  job->group = sum.group;
  job->order = order_update(options_, *run_, place_.stage, sum.group, sum.minibatches);
  job->gradients = std::move(sum.gradients);
  job->in_place = sum.holds_from > sum.group;
  job->owned = owned_;
  job->made = std::make_shared<weight_set>(weight_set{first_version_ + sum.group + 1, {}});
  ++begun_;
  if (place_.shared.empty()) return clip_and_apply(std::move(job), out);
  unshared_ = std::move(job);
  out.emplace_back(share_uses{unshared_, {run_->number, unshared_->group, place_.stage, {}}});
}

optimizer_effects optimizer_core::shared(tie_msg mine) {
  optimizer_effects out;
  if (place_.forms_norm) out.emplace_back(send_uses{mine}); // one speaks for the stage
  ties_[mine.group][mine.stage] = std::move(mine);
  take_shared(out);
  return out;
}

optimizer_effects optimizer_core::on(tie_msg m) {
  check(run_ && m.stretch == run_->number && m.group >= done_, "shared gradients of another update");
  optimizer_effects out;
  ties_[m.group][m.stage] = std::move(m);
  take_shared(out);
  return out;
}

// Goes on when every stage that uses one of the tensors has told its part.
void optimizer_core::take_shared(optimizer_effects& out) {
  if (!unshared_) return;
  auto& told = ties_[unshared_->group];
  for (const auto& t : place_.shared)
    for (const int stage : t.stages)
      if (!told.contains(stage)) return;
  for (const auto& t : place_.shared) {
    uses_across across{.parameter = t.parameters.back()};
    for (const int stage : t.stages)
      for (const auto& use : told[stage].tensors)
        if (use.name == t.name) across.gradients.push_back(use.value);
    unshared_->across.push_back(std::move(across));
  }
  ties_.erase(unshared_->group);
  clip_and_apply(std::exchange(unshared_, nullptr), out);
  pump(out);
}

void optimizer_core::clip_and_apply(update_work_ptr job, optimizer_effects& out) {
  if (options_.clip_norm <= 0 && !clips_stage()) {
    out.emplace_back(compute_update_of{std::move(job)});
    return;
  }
  unclipped_ = std::move(job);
  if (place_.forms_norm || clips_stage())
    out.emplace_back(compute_squares{unclipped_});
  else
    apply_clipped(out);
}

optimizer_effects optimizer_core::squared(const update_work& job) {
  optimizer_effects out;
  if (clips_stage()) {
    factors_[job.group] = stage_clip_factor(options_, job.order, job.squares);
    apply_clipped(out);
    pump(out);
  } else {
    auto squares = job.squares;
    for (const auto& t : place_.shared)
      if (!t.counts_here) squares.at(t.parameters.back()) = 0; // the first stage that uses it counts it
    out.emplace_back(send_norm{{job.stretch, place_.stage, job.group, std::move(squares)}});
  }
  return out;
}

optimizer_effects optimizer_core::on(const clip_msg& m) {
  check(run_ && m.stretch == run_->number && m.group >= done_, "a clip factor for another update");
  if (planned_ == 0) return {}; // all of it is frozen
  factors_[m.group] = m.factor;
  optimizer_effects out;
  apply_clipped(out);
  pump(out);
  return out;
}

void optimizer_core::apply_clipped(optimizer_effects& out) {
  if (!unclipped_) return;
  const auto factor = factors_.find(unclipped_->group);
  if (factor == factors_.end()) return;
  unclipped_->order.gradient_scale *= factor->second;
  factors_.erase(factor);
  out.emplace_back(compute_update_of{std::move(unclipped_)});
}

optimizer_effects optimizer_core::updated(const update_work& job) {
  check(job.group == done_ && done_ < begun_, "an update came back that is not under way");
  ++done_;
  optimizer_effects out;
  finish_when_done(out);
  return out;
}

std::string optimizer_core::describe() const {
  if (!run_ || done_ >= planned_) return who_ + " has applied all updates";
  const auto sums = reducer_->describe();
  return who_ + " has applied " + std::to_string(done_) + " of " + std::to_string(planned_) + " updates, " +
         std::to_string(begun_ - done_) + " under way" + (sums.empty() ? "" : ", " + sums);
}

} // namespace penstock::actors
