// Replays a schedule's definition with one control thread and no actors: minibatch after minibatch, each with the
// weight versions that DESIGN section 2 gives it. It knows no lists, credits, messages or timing, so it can judge them.
#include "actors/run/executor.hpp"
#include "actors/run/step_log.hpp"
#include "actors/source/microbatch_loader.hpp"
#include "actors/stage/stage_compute.hpp"
#include "actors/stage/stage_copies.hpp"
#include "kernels/check.hpp"
#include "kernels/model_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

namespace penstock::actors {

namespace {

class oracle_executor final : public executor {
public:
  explicit oracle_executor(run_services& services);
  std::int64_t train(stretch_ptr run) override;
  std::optional<loss_metrics> evaluate(const dataset& data, std::int64_t batch,
                                       const std::vector<std::vector<tensor>>& states) override;
  std::map<int, stage_copy> collect(copy_of what) override { return copies(what, {}); }
  void require_finite(const std::string& after) override { copies(copy_of::nothing, after); }
  std::map<int, stage_measures> measure() override;

private:
  // What the run has learnt of a stage.
  struct learnt {
    stage_weights weights;
    std::vector<std::vector<tensor>> states;  // by replica
    std::unique_ptr<carried_columns> carried; // of all columns: whose they are is not its concern
  };
  struct stage_memory {
    std::deque<weights_ptr> versions;           // consecutive; the newest is the stage's own
    std::int64_t base = 0;                      // absolute version at the drain
    std::vector<std::vector<tensor>> gradients; // per replica
    std::int64_t counted = 0;                   // minibatches of the open group of which something counts
  };
  bool is_frozen(int stage) const;
  const planner::stage_schedule& ruling(int stage) const;
  std::int64_t forward_version(int stage, std::int64_t tau) const;
  std::int64_t versions_kept(int stage) const;
  weights_ptr version(int stage, std::int64_t relative) const;
  void run_microbatch(std::int64_t tau, std::int32_t micro);
  void report_results(std::int64_t batch, std::vector<tensor> results) const;
  void feed(const stage_unit& s, const loaded_microbatch& loaded, std::vector<tensor>& flowing) const;
  void require_finite_loss(const stage_unit& s, const microbatch_record& record, const loss_metrics& metrics) const;
  bool is_first_use(const stage_unit& s, std::size_t parameter) const;
  std::vector<std::vector<uses_across>> shared_uses(const std::vector<std::vector<tensor>>& sums) const;
  std::int64_t counted(int stage);
  void update(std::int64_t tau);
  void apply(int stage, std::int64_t group, std::int64_t contributions, std::vector<tensor> sum, float clip);
  std::vector<tensor> gather(int stage);
  void update_groups(std::int64_t tau);
  void update_all(std::int64_t tau);
  std::map<int, stage_copy> copies(copy_of what, const std::string& after);
  learnt& of(const stage_unit& s) { return learnt_[static_cast<std::size_t>(s.index)]; }

  run_services& services_;
  microbatch_loader loader_;
  std::vector<learnt> learnt_;
  stretch_ptr run_;
  std::vector<stage_memory> memory_;
};

oracle_executor::oracle_executor(run_services& services)
    : services_(services), loader_(services.inputs.net, *services.inputs.train, training_batches(services.options),
                                   services.plan.microbatches) {
  for (auto& s : services_.built.stages) {
    auto& own = learnt_.emplace_back();
    own.weights = std::exchange(s.owned, {});
    for (auto& r : s.replicas)
      own.states.push_back(std::exchange(r.states, {}));
    own.carried = std::make_unique<carried_columns>(s.layers->carried(), std::exchange(s.replicas.front().carried, {}));
  }
}

// DESIGN section 7: whose last layer is before the plan's frozen_until. It has no updates, and nothing comes back to
// it.
bool oracle_executor::is_frozen(int stage) const {
  return services_.built.stages[static_cast<std::size_t>(stage)].layers->is_frozen();
}

// Whose credit says how old a version of that stage may be.
const planner::stage_schedule& oracle_executor::ruling(int stage) const {
  if (run_->schedule.name == "pipedream-vertical-sync")
    for (stage = 0; is_frozen(stage);)
      ++stage;
  return run_->schedule.stages[static_cast<std::size_t>(stage)];
}

// DESIGN section 2, rules 1 and 6 and the table: how many updates of this stage a forward of minibatch tau must have
// seen.
std::int64_t oracle_executor::forward_version(int stage, std::int64_t tau) const {
  const auto& plan = run_->schedule;
  if (is_frozen(stage)) return 0;
  if (plan.synchronous) return tau;
  if (plan.name == "2bw") return std::max<std::int64_t>(0, tau - 1);
  const auto& s = ruling(stage);
  return std::max<std::int64_t>(0, tau / s.replicas - (s.credit - 1) - s.update_lag);
}

std::int64_t oracle_executor::versions_kept(int stage) const {
  const auto& plan = run_->schedule;
  if (plan.synchronous) return 1;
  if (plan.name == "2bw") return 2;
  const auto& s = ruling(stage);
  return s.credit + s.update_lag;
}

weights_ptr oracle_executor::version(int stage, std::int64_t relative) const {
  const auto& m = memory_[static_cast<std::size_t>(stage)];
  for (const auto& w : m.versions)
    if (w->version == m.base + relative) return w;
  throw std::logic_error("the oracle lacks version " + std::to_string(relative) + " of stage " + std::to_string(stage));
}

std::int64_t oracle_executor::train(stretch_ptr run) {
  run_ = std::move(run);
  memory_.clear();
  for (auto& s : services_.built.stages) {
    stage_memory m;
    m.base = of(s).weights.newest->version;
    m.versions.push_back(of(s).weights.newest);
    m.gradients.assign(s.replicas.size(), std::vector<tensor>(s.layers->parameters().size()));
    memory_.push_back(std::move(m));
    of(s).carried->begin(*run_, columns_of(*run_, s.index, -1));
  }
  services_.steps.begin_stretch(run_->first_minibatch, 0);
  std::int64_t tau = 0;
  for (; tau < run_->schedule.minibatches; ++tau) {
    const bool may_drain = (run_->first_minibatch + tau) % run_->column_blocks == 0;
    if (services_.control.stop || (services_.control.wants_drain() && may_drain)) break;
    for (std::int32_t m = 0; m < run_->schedule.microbatches; ++m)
      run_microbatch(tau, m);
    update(tau);
  }
  if (run_->schedule.updates.per_minibatch_group && tau > 0)
    for (auto& s : services_.built.stages) { // the last group may be short of minibatches
      const auto replicas = static_cast<std::int64_t>(s.replicas.size());
      if (!is_frozen(s.index) && tau % replicas != 0)
        apply(s.index, (tau - 1) / replicas, counted(s.index), gather(s.index), 1);
    }
  memory_.clear();
  services_.steps.end_stretch();
  return tau;
}

void oracle_executor::run_microbatch(std::int64_t tau, std::int32_t micro) {
  auto& parts = services_.built;
  const auto minibatch = run_->first_minibatch + tau;
  const auto loaded = loader_.load(minibatch, micro);
  const microbatch_id id{services_.options.seed, minibatch, micro, loaded.info};
  std::vector<microbatch_record> records(parts.stages.size());
  std::vector<tensor> flowing;
  std::vector<loss_metrics> metrics(parts.stages.size());
  if (micro == 0 && parts.net->counts_anything(loaded.info, services_.plan.frozen_until))
    for (auto& m : memory_)
      ++m.counted;
  for (auto& s : parts.stages) {
    const auto i = static_cast<std::size_t>(s.index);
    const int r = planner::replica_of(run_->schedule, s.index, tau, micro);
    records[i].id = id;
    records[i].weights = version(s.index, forward_version(s.index, tau));
    auto& replica = s.replicas[static_cast<std::size_t>(r)];
    feed(s, loaded, flowing);
    run_and_settle(*replica.work, [&](backend& ops, outcome& tells) {
      flowing = compute_forward(ops, parts, s, replica, of(s).states[static_cast<std::size_t>(r)], *of(s).carried,
                                std::move(flowing), records[i], metrics[i], tells);
    });
    require_finite_loss(s, records[i], metrics[i]);
  }
  for (auto it = parts.stages.rbegin(); it != parts.stages.rend(); ++it) {
    auto& s = *it;
    if (is_frozen(s.index)) break;
    const auto i = static_cast<std::size_t>(s.index);
    const auto r = static_cast<std::size_t>(planner::replica_of(run_->schedule, s.index, tau, micro));
    const auto weights = run_->schedule.stashes_weights ? records[i].weights : of(s).weights.newest;
    run_and_settle(*s.replicas[r].work, [&](backend& ops, outcome& tells) {
      flowing = compute_backward(ops, parts, s, s.replicas[r], of(s).states[r], std::move(flowing), *weights,
                                 records[i], memory_[i].gradients[r], tells);
    });
    records[i] = {};
  }
  for (const auto& s : parts.stages)
    if (tells_metrics(s)) services_.steps.add(minibatch, micro, metrics[static_cast<std::size_t>(s.index)]);
}

// What the model reads from outside, behind what came from the stage before.
void oracle_executor::feed(const stage_unit& s, const loaded_microbatch& loaded, std::vector<tensor>& flowing) const {
  if (loaded.info.samples == 0) return;
  for (auto& t : fed_of(*s.layers, loaded))
    flowing.push_back(std::move(t));
}

void oracle_executor::require_finite_loss(const stage_unit& s, const microbatch_record& record,
                                          const loss_metrics& metrics) const {
  if (!services_.options.stop_on_nonfinite) return;
  const double loss = loss_sum(*services_.built.net, s.layers->losses(), metrics);
  if (std::isfinite(loss)) return;
  throw error("[training] the loss is not finite (" + std::to_string(loss) + "): stage " + std::to_string(s.index) +
              ", minibatch " + std::to_string(record.id.minibatch) + ", micro-batch " +
              std::to_string(record.id.microbatch) + ", weight version " + std::to_string(record.weights->version));
}

std::vector<tensor> oracle_executor::gather(int stage) {
  auto& s = services_.built.stages[static_cast<std::size_t>(stage)];
  auto& gradients = memory_[static_cast<std::size_t>(stage)].gradients;
  std::vector<tensor> sum;
  s.update_stream().run([&](backend& ops) { sum = sum_gradients(ops, std::move(gradients)); });
  gradients.assign(s.replicas.size(), std::vector<tensor>(s.layers->parameters().size()));
  return sum;
}

void oracle_executor::apply(int stage, std::int64_t group, std::int64_t contributions, std::vector<tensor> sum,
                            float clip) {
  auto& s = services_.built.stages[static_cast<std::size_t>(stage)];
  auto& versions = memory_[static_cast<std::size_t>(stage)].versions;
  const auto kept = static_cast<std::size_t>(versions_kept(stage));
  while (versions.size() > kept - 1)
    versions.pop_front(); // so that an update may happen in place
  std::vector<uses_across> nothing_left;
  s.update_stream().run([&](backend& ops) { add_uses(ops, *s.layers, sum, nothing_left); });
  auto order = order_update(services_.options, *run_, stage, group, contributions);
  if (services_.options.clip_stage_norm > 0) {
    std::vector<double> squares;
    run_and_settle(s.update_stream(),
                   [&](backend& ops, outcome& tells) { gradient_squares(ops, sum, squares, tells); });
    clip = stage_clip_factor(services_.options, order, squares);
  }
  order.gradient_scale *= clip;
  auto& own = of(s).weights;
  const bool in_place = versions.empty(); // else a later forward reads the newest
  run_and_settle(s.update_stream(), [&](backend& ops, outcome& tells) {
    compute_update(ops, services_.built, s, services_.options, order, sum, own, in_place, tells);
    sum.clear();
  });
  versions.push_back(own.newest);
}

// Of the group that ends now.
std::int64_t oracle_executor::counted(int stage) {
  return std::exchange(memory_[static_cast<std::size_t>(stage)].counted, 0);
}

void oracle_executor::update(std::int64_t tau) {
  if (run_->schedule.updates.per_minibatch_group)
    update_groups(tau);
  else
    update_all(tau);
}

// Whether a stage before has that tensor too.
bool oracle_executor::is_first_use(const stage_unit& s, std::size_t parameter) const {
  const auto& name = s.layers->parameters()[parameter].name;
  for (const auto& before : services_.built.stages) {
    if (before.index >= s.index) break;
    for (const auto& p : before.layers->parameters())
      if (p.name == name) return false;
  }
  return true;
}

// DESIGN section 3: the uses of a tensor are added from the last one to the first, wherever the cuts lie.
std::vector<std::vector<uses_across>> oracle_executor::shared_uses(const std::vector<std::vector<tensor>>& sums) const {
  const auto& stages = services_.built.stages;
  std::vector<std::vector<uses_across>> by_stage(stages.size());
  for (const auto& tie : services_.built.net->ties()) {
    if (tie.uses.front().layer < services_.plan.frozen_until) continue; // it has no gradient
    std::vector<tensor> uses;
    std::map<int, std::size_t> first; // use, by stage
    for (auto s = stages.rbegin(); s != stages.rend(); ++s)
      for (std::size_t i = s->layers->parameters().size(); i-- > 0;) {
        if (s->layers->parameters()[i].name != tie.name) continue;
        uses.push_back(sums[static_cast<std::size_t>(s->index)][i]);
        first[s->index] = i;
      }
    if (first.size() < 2) continue;
    for (const auto& [stage, parameter] : first)
      by_stage[static_cast<std::size_t>(stage)].push_back({parameter, uses});
  }
  return by_stage;
}

void oracle_executor::update_groups(std::int64_t tau) {
  for (auto& s : services_.built.stages) {
    const auto replicas = static_cast<std::int64_t>(s.replicas.size());
    if (!is_frozen(s.index) && (tau + 1) % replicas == 0)
      apply(s.index, tau / replicas, counted(s.index), gather(s.index), 1);
  }
}

void oracle_executor::update_all(std::int64_t tau) {
  std::vector<std::vector<tensor>> sums;
  for (const auto& s : services_.built.stages)
    sums.push_back(gather(s.index));
  const auto shared = shared_uses(sums);
  double squares = 0;
  for (auto& s : services_.built.stages) {
    auto& sum = sums[static_cast<std::size_t>(s.index)];
    auto across = shared[static_cast<std::size_t>(s.index)];
    s.update_stream().run([&](backend& ops) { add_uses(ops, *s.layers, sum, across); });
    if (services_.options.clip_norm <= 0) continue;
    std::vector<double> of_stage;
    run_and_settle(s.update_stream(),
                   [&](backend& ops, outcome& tells) { gradient_squares(ops, sum, of_stage, tells); });
    for (std::size_t i = 0; i < of_stage.size(); ++i)
      if (is_first_use(s, i)) squares += of_stage[i];
  }
  const auto clip =
      services_.options.clip_norm > 0 ? clip_factor(std::sqrt(squares), services_.options.clip_norm) : 1.0F;
  for (auto& s : services_.built.stages)
    if (!is_frozen(s.index)) apply(s.index, tau, 1, std::move(sums[static_cast<std::size_t>(s.index)]), clip);
}

std::optional<loss_metrics> oracle_executor::evaluate(const dataset& data, std::int64_t batch,
                                                      const std::vector<std::vector<tensor>>& states) {
  microbatch_loader loader(services_.inputs.net, data, evaluation_batches(services_.options, batch), 1);
  loss_metrics total;
  std::vector<carried_columns> carried;
  for (const auto& s : services_.built.stages)
    carried.emplace_back(s.layers->carried());
  const auto all = loader.samples_of_epoch();
  for (std::int64_t b = 0; b < loader.minibatches().per_epoch(); ++b) {
    if (services_.control.stop) return std::nullopt;
    services_.observer.on_progress({"evaluating", total.samples, all});
    const auto loaded = loader.load(b, 0);
    std::vector<tensor> flowing;
    std::vector<tensor> results;
    loss_metrics metrics{.samples = loaded.info.samples, .counts = loaded.info.counts};
    for (auto& s : services_.built.stages) {
      loss_metrics part;
      feed(s, loaded, flowing);
      run_and_settle(s.update_stream(), [&](backend& ops, outcome& tells) {
        auto stage_states = states[static_cast<std::size_t>(s.index)];
        flowing = compute_evaluation(ops, services_.built, s, loaded.info, std::move(flowing),
                                     *weights_in_use(of(s).weights, *services_.built.rule), stage_states,
                                     carried[static_cast<std::size_t>(s.index)], part, results, tells);
      });
      metrics.add_part(part);
    }
    report_results(b, std::move(results));
    total += metrics;
  }
  return total;
}

void oracle_executor::report_results(std::int64_t batch, std::vector<tensor> results) const {
  if (results.empty()) return;
  const auto& net = *services_.built.net;
  batch_results found{batch, {}};
  for (std::size_t i = 0; i < results.size(); ++i)
    found.tensors[net.value(services_.built.stages.back().layers->outputs()[i]).name] = std::move(results[i]);
  services_.observer.on_results(found);
}

std::map<int, stage_copy> oracle_executor::copies(copy_of what, const std::string& after) {
  std::map<int, stage_copy> all;
  memory_pool pool;
  for (auto& s : services_.built.stages)
    run_and_settle(s.update_stream(), [&](backend& ops, outcome& tells) {
      auto& copy = all[s.index];
      copy = copy_learnt(ops, services_.built, s, of(s).weights, what, after, pool, tells);
      for (std::size_t r = 0; r < s.replicas.size(); ++r)
        copy.merge(copy_states(ops, s, static_cast<int>(r), of(s).states[r], what, after, pool, tells));
      if (is_copied(what, copy_of::carried)) copy.carried = of(s).carried->copy(ops, pool, true);
    });
  return all;
}

std::map<int, stage_measures> oracle_executor::measure() {
  std::map<int, stage_measures> all;
  for (auto& s : services_.built.stages)
    all[s.index] = measure_stage(s, of(s).weights);
  return all;
}

} // namespace

std::unique_ptr<executor> make_oracle_executor(run_services& services) {
  return std::make_unique<oracle_executor>(services);
}

} // namespace penstock::actors
