// The options of a run that decide its numbers, in a person's words.
#include "actors/checkpoint/training_record.hpp"

#include "actors/run/resolved_run.hpp"
#include "kernels/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace penstock::actors {

namespace {

std::string yes_or_no(bool value) {
  return value ? "yes" : "no";
}

// As --lr-schedule takes it, with the length where the rate depends on it.
std::string text_of(const lr_schedule_options& o) {
  auto text = o.name;
  if (o.name == "step") text += fmt::format(":every={},gamma={}", o.step_every, o.gamma);
  if (o.name == "polynomial") text += fmt::format(":power={}", o.power);
  if (o.name == "gnmt") text += fmt::format(":halvings={},until={}", o.halvings, o.until);
  if (o.warmup_steps > 0) text += fmt::format("{}warmup={}", text == o.name ? ":" : ",", o.warmup_steps);
  if (o.name != "cosine" && o.name != "polynomial" && o.name != "gnmt") return text;
  if (o.final_fraction > 0) text += fmt::format("{}final={}", text == o.name ? ":" : ",", o.final_fraction);
  return text + fmt::format(" over {} steps", o.total_steps);
}

void add_optimizer(const run_options& o, training_record& record) {
  const auto& optimizer = o.optimizer;
  if (optimizer.name == "sgd") {
    record["--momentum"] = fmt::format("{}", optimizer.momentum);
    record["--nesterov"] = yes_or_no(optimizer.nesterov);
  } else if (optimizer.name == "asgd") {
    if (o.asgd_patience > 0)
      record["--asgd-trigger"] = std::to_string(o.asgd_patience);
    else
      record["--asgd-from"] = std::to_string(optimizer.average_from);
  } else {
    record["betas and epsilon"] = fmt::format("{}, {}, {}", optimizer.beta1, optimizer.beta2, optimizer.epsilon);
    record["--no-bias-correction"] = yes_or_no(!optimizer.bias_correction);
  }
  record["--weight-decay"] = fmt::format("{}", optimizer.weight_decay);
  record["--no-decay-norm-bias"] = yes_or_no(!o.decay_norm_bias);
}

std::string stages_of(const planner::execution_plan& plan) {
  std::vector<std::string> stages;
  for (const auto& stage : plan.stages)
    stages.push_back(fmt::format("{} x{}", stage.first_layer, stage.replicas));
  return fmt::format("{}", fmt::join(stages, ", "));
}

} // namespace

training_record record_of(const resolved_run& plan, const run_inputs& inputs) {
  const auto& o = plan.options;
  training_record record = inputs.record;
  record["--lr"] = fmt::format("{}", o.lr.base);
  record["--lr-schedule"] = text_of(o.lr);
  record["--label-smoothing"] = fmt::format("{}", o.label_smoothing);
  record["--clip-norm"] = fmt::format("{}", o.clip_norm);
  record["--clip-stage-norm"] = fmt::format("{}", o.clip_stage_norm);
  record["--no-replica-lr-scaling"] = yes_or_no(!o.replica_lr_scaling);
  add_optimizer(o, record);
  record["--schedule"] = plan.plan->schedule;
  record["--microbatches"] = std::to_string(plan.plan->microbatches);
  record["stages and replicas"] = stages_of(*plan.plan);
  std::vector<std::int64_t> credits;
  for (const auto& stage : plan.plan->stages)
    credits.push_back(stage.in_flight);
  record["--in-flight"] = fmt::format("{}", fmt::join(credits, ","));
  if (std::any_of(plan.plan->stages.begin(), plan.plan->stages.end(), [](const auto& s) { return s.update_lag > 0; })) {
    std::vector<std::int64_t> lags;
    for (const auto& stage : plan.plan->stages)
      lags.push_back(stage.update_lag);
    record["--update-lag"] = fmt::format("{}", fmt::join(lags, ","));
  }
  if (const int frozen_until = plan.plan->frozen_until; frozen_until > 0)
    record["--frozen-until"] = inputs.net->layers()[static_cast<std::size_t>(frozen_until)].name;
  record["--threads"] = std::to_string(plan.plan->threads);
  record["compute library"] = plan.compute_library + " " + plan.instruction_set;
  if (inputs.net->carries()) record[column_blocks_record] = std::to_string(o.column_blocks);
  if (plan.dealing.synchronous) return record;
  // Where an asynchronous run drains is part of what it is.
  record["--eval-every"] = std::to_string(plan.drains.eval_every);
  record["--checkpoint-every"] = std::to_string(plan.drains.checkpoint_every);
  return record;
}

std::vector<std::string> differences(const training_record& saved, const training_record& now) {
  training_record names = saved;
  names.insert(now.begin(), now.end());
  const auto value_in = [](const training_record& record, const std::string& name) {
    const auto found = record.find(name);
    return found == record.end() ? std::string("not given") : found->second;
  };
  std::vector<std::string> lines;
  for (const auto& [name, unused] : names) {
    const auto before = value_in(saved, name);
    const auto after = value_in(now, name);
    if (before != after)
      lines.push_back(fmt::format("{} {} -> {}", shortened(name), shortened(before), shortened(after)));
  }
  return lines;
}

std::string rate_change(double last, std::int64_t step, double next) {
  return fmt::format("learning rate {:.4g} at step {} -> {:.4g} at step {}", last, step, next, step + 1);
}

} // namespace penstock::actors
