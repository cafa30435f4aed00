// Admits micro-batches in order, one for each credit, from data that was loaded ahead.
#include "actors/source/source_core.hpp"

#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::actors {

message_key source_core::key_at(std::int64_t index) const {
  auto key = base_;
  key.since_drain = index / microbatches_;
  key.minibatch = base_.minibatch + key.since_drain;
  key.microbatch = static_cast<std::int32_t>(index % microbatches_);
  return key;
}

// Stage 0 is dealt by the same running number (DESIGN section 2 rule 3).
bool source_core::is_ours(std::int64_t index) const {
  if (static_cast<int>(place_.local.size()) == place_.replicas) return true;
  const bool is_evaluation = base_.mode == phase::evaluation && place_.evaluating > 0;
  const auto replica = static_cast<int>(index % (is_evaluation ? place_.evaluating : place_.replicas));
  return std::find(place_.local.begin(), place_.local.end(), replica) != place_.local.end();
}

std::int64_t source_core::next_of_ours(std::int64_t index) const {
  while (index < total_ && !is_ours(index))
    ++index;
  return index;
}

// `credit` is for all replicas of stage 0. Of several sources each holds its replicas' share, in whole rounds of them:
// they admit what is dealt to their own, and what is on its way must go on from the oldest without a gap.
void source_core::restart(message_key first, std::int64_t minibatches, int microbatches, std::int64_t credit) {
  base_ = first;
  begun_ = true;
  microbatches_ = microbatches;
  total_ = minibatches * microbatches;
  admitted_ = requested_ = returned_ = 0;
  last_admitted_ = -1;
  next_ = request_ = next_of_ours(0);
  const auto local = static_cast<std::int64_t>(place_.local.size());
  credit_ = local == place_.replicas ? credit : (credit + place_.replicas - 1) / place_.replicas * local;
  paused_ = false;
  ready_.clear();
  is_done_ = false;
}

source_effects source_core::on(const begin_training_msg& m) {
  const auto& s = m.run->schedule;
  restart({.plan_epoch = place_.plan_epoch, .stretch = m.run->number, .minibatch = m.run->first_minibatch},
          s.minibatches, s.microbatches, s.source_credit());
  source_effects out;
  pump(out);
  return out;
}

source_effects source_core::on(const admit_evaluation_msg& m) {
  restart({.plan_epoch = place_.plan_epoch, .stretch = m.stretch, .mode = phase::evaluation}, m.batches, 1, m.credit);
  source_effects out;
  pump(out);
  return out;
}

source_effects source_core::on(const end_after_msg& m) {
  source_effects out;
  if (m.stretch != base_.stretch) return out;
  total_ = std::min(total_, m.minibatches * microbatches_);
  paused_ = false;
  pump(out);
  return out;
}

// A minibatch whose first micro-batch is in the pipeline is admitted whole, by this source and the others.
source_effects source_core::pause() {
  paused_ = true;
  source_effects out;
  out.emplace_back(admitted_so_far{base_.stretch, last_admitted_ < 0 ? 0 : last_admitted_ / microbatches_ + 1});
  return out;
}

source_effects source_core::on(const credit_msg& m) {
  check(m.key.stretch == base_.stretch && m.key.mode == base_.mode, "a credit of another stretch");
  ++credit_;
  ++returned_;
  source_effects out;
  pump(out);
  return out;
}

source_effects source_core::loaded(const message_key& key, loaded_microbatch data) {
  source_effects out;
  if (key.stretch != base_.stretch) return out; // asked for before a drain cut the stretch short
  ready_.emplace(key.since_drain * microbatches_ + key.microbatch, std::move(data));
  pump(out);
  return out;
}

void source_core::load_ahead(source_effects& out) {
  while (request_ < total_ && requested_ < admitted_ + place_.ahead) {
    out.emplace_back(load_microbatch{key_at(request_)});
    ++requested_;
    request_ = next_of_ours(request_ + 1);
  }
}

std::vector<named_tensor> source_core::read_by(const input_reader& reader, const loaded_microbatch& data) const {
  std::vector<named_tensor> tensors;
  for (const int i : reader.inputs)
    tensors.push_back({place_.inputs[static_cast<std::size_t>(i)], data.inputs[static_cast<std::size_t>(i)]});
  return tensors;
}

void source_core::pump(source_effects& out) {
  if (!begun_) return;
  load_ahead(out);
  while (!paused_ && credit_ > 0 && next_ < total_) {
    auto found = ready_.extract(next_);
    if (!found) break;
    const auto key = key_at(next_);
    --credit_;
    ++admitted_;
    last_admitted_ = next_;
    next_ = next_of_ours(next_ + 1);
    auto& data = found.mapped();
    admit_microbatch one{{key, 0, data.info, read_by(place_.readers.front(), data)}, {}};
    for (std::size_t r = 1; r < place_.readers.size(); ++r) {
      auto to = key;
      to.stage = place_.readers[r].stage;
      one.fed.push_back({to, data.info, read_by(place_.readers[r], data)});
    }
    out.emplace_back(std::move(one));
    load_ahead(out);
  }
  if (is_done_ || paused_ || next_ < total_ || returned_ < admitted_) return;
  is_done_ = true;
  out.emplace_back(all_is_admitted{});
}

source_core::wait source_core::waits_for() const {
  if (paused_ || next_ >= total_) return wait::nothing;
  return credit_ > 0 ? wait::data : wait::credit;
}

std::string source_core::describe() const {
  if (next_ >= total_) return "the source has admitted everything";
  if (credit_ <= 0)
    return "the source has no credit: it waits for stage " + std::to_string(place_.first_active) +
           " to begin a backward";
  return "the source waits for its loaders: minibatch " + std::to_string(key_at(next_).minibatch);
}

} // namespace penstock::actors
