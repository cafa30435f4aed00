// Building a pipeline, and reading and writing its tensors by name.
#include "actors/stage/pipeline.hpp"

#include "actors/policy/settle_plan.hpp"
#include "actors/ranks/wire_format.hpp"
#include "actors/stage/as_trained.hpp"
#include "kernels/check.hpp"
#include "kernels/device_kinds.hpp"
#include "kernels/finite.hpp"
#include "kernels/initialise.hpp"
#include "kernels/usable_cores.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <sched.h>
#include <thread>

namespace penstock::actors {

namespace {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) cores.push_back(c);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

// Consecutive cores for each worker where there are enough for all, else none: sharing cores is the scheduler's work,
// and where a quota leaves fewer than there are, it knows which are free.
class core_dealer {
public:
  core_dealer(const run_options& options, int threads, int workers) : cores_(allowed_cores()), threads_(threads) {
    const int cores = static_cast<int>(cores_.size());
    pins_ = options.pin && threads_ * workers <= cores && !quota_limits();
  }
  std::vector<int> next() {
    if (!pins_) return {};
    const auto first = cores_.begin() + next_;
    next_ += threads_;
    return {first, first + threads_};
  }

private:
  std::vector<int> cores_;
  int threads_;
  int next_ = 0;
  bool pins_ = false;
};

// In the memory that the host has for them; work that uses them takes them into its device's.
std::vector<tensor> initial_replica_states(const segment& layers, memory_pool* host) {
  memory_pool own;
  auto& pool = host != nullptr ? *host : own;
  std::vector<tensor> states;
  for (const auto& s : layers.states()) {
    auto t = tensor::allocate(pool, s.spec.type, s.spec.dims, memory_use::optimizer_state);
    if (s.spec.type == dtype::i64)
      std::fill_n(t.data<std::int64_t>(), t.elements(), static_cast<std::int64_t>(s.spec.initial));
    else
      std::fill_n(t.data<float>(), t.elements(), s.spec.initial);
    require_state(t, s.spec, "[weights] the initial value of " + s.name);
    states.push_back(std::move(t));
  }
  return states;
}

// On the stage's update stream, `threads` of which may draw.
void initialise_stage(backend& ops, stage_unit& s, const run_options& options, const optimizer& step, int threads) {
  s.formats = s.layers->parameter_formats(ops);
  s.owned.newest = std::make_shared<weight_set>();
  for (std::size_t i = 0; i < s.layers->parameters().size(); ++i) {
    const auto& p = s.layers->parameters()[i];
    if (s.layers->is_repeat(i)) {
      s.owned.newest->tensors.push_back(s.owned.newest->tensors[p.first_use]);
      continue;
    }
    s.owned.newest->tensors.push_back(
        options.draws_weights ? initial_parameter(ops, p.spec, p.name, s.formats[i], options.seed, threads)
                              : ops.allocate_zeroed(dtype::f32, p.spec.dims, memory_use::weights, s.formats[i]));
  }
  for (std::size_t i = 0; i < s.owned.newest->tensors.size(); ++i) {
    if (s.layers->is_repeat(i)) {
      s.owned.optimizer_states.push_back(s.owned.optimizer_states[s.layers->parameters()[i].first_use]);
      continue;
    }
    const auto& w = s.owned.newest->tensors[i];
    optimizer_state state;
    const auto kinds = i < s.layers->frozen_parameters() ? 0 : step.state_names().size();
    for (std::size_t n = 0; n < kinds; ++n)
      state.tensors.push_back(ops.allocate_zeroed(dtype::f32, w.dims(), memory_use::optimizer_state, w.format()));
    s.owned.optimizer_states.push_back(std::move(state));
  }
  s.update_memory().reset_peak(); // plain copies made here are no version of the run
}

// All workers at once, each on its own cores.
void initialise_stages(pipeline& p, const run_options& options) {
  const auto local =
      std::count_if(p.stages.begin(), p.stages.begin() + p.positions(), [](const auto& s) { return s.is_local(); });
  const int share = usable_cores() / std::max(1, static_cast<int>(local));
  std::vector<std::future<void>> under_way;
  under_way.reserve(p.stages.size());
  for (auto& s : p.stages)
    if (s.is_local())
      under_way.push_back(s.update_stream().start([&, threads = std::max(share, p.threads)](backend& ops) {
        initialise_stage(ops, s, options, *p.rule, threads);
      }));
  for (auto& stage : under_way)
    stage.wait(); // all of them, since they use what a failure would take away
  for (auto& stage : under_way)
    stage.get();
}

int workers_on(const placement& where, int rank, int chunks) {
  int workers = 0;
  for (std::size_t s = 0; s < where.rank_of.size() / static_cast<std::size_t>(chunks); ++s)
    workers += static_cast<int>(where.replicas_on(static_cast<int>(s), rank).size());
  return workers;
}

// `beside`: of a stage that the same worker hosts too; null for a worker's first.
replica_unit open_replica(const run_options& options, const stage_unit& s, int replica, int threads,
                          core_dealer& dealer, stream* beside) {
  replica_unit unit;
  unit.memory = open_device(options.device, 0);
  std::string name("stage ");
  name += std::to_string(s.index);
  if (s.replicas.size() > 1) name += "." + std::to_string(replica);
  unit.work = beside != nullptr ? unit.memory->create_stream_beside(*beside)
                                : unit.memory->create_stream({name, threads, dealer.next(), options.reference_kernels});
  unit.states = initial_replica_states(*s.layers, unit.memory->host_memory());
  return unit;
}

} // namespace

std::unique_ptr<pipeline> build_pipeline(const planner::execution_plan& plan, const run_options& options,
                                         std::shared_ptr<const model> net, int rank) {
  auto p = std::make_unique<pipeline>();
  const auto cuts = first_layers_of(plan, *net);
  p->where = placement_of(plan);
  p->rank = rank;
  p->net = as_trained(net, options);
  p->rule = make_optimizer(options.optimizer);
  p->require_finite = options.stop_on_nonfinite;
  p->columns = p->net->carries() ? options.batch * options.column_blocks : 0;
  p->chunks = plan.chunks;
  p->threads = plan.threads;
  core_dealer dealer(options, p->threads, workers_on(p->where, rank, p->chunks));
  const auto count = plan.stages.size();
  const auto positions = count / static_cast<std::size_t>(plan.chunks);
  for (std::size_t i = 0; i < count; ++i) {
    stage_unit s;
    s.index = static_cast<int>(i);
    s.is_first = i == 0;
    s.is_last = i + 1 == count;
    const int end = s.is_last ? static_cast<int>(p->net->layers().size()) : cuts[i + 1];
    s.layers = std::make_shared<segment>(p->net, cuts[i], end, plan.frozen_until);
    s.is_first_active = !s.layers->is_frozen() && cuts[i] <= plan.frozen_until;
    s.recomputes = plan.stages[i].recompute && !s.layers->is_frozen();
    s.local = p->where.replicas_on(s.index, rank);
    s.replicas.resize(static_cast<std::size_t>(plan.stages[i].replicas));
    for (const int r : s.local) {
      const auto ru = static_cast<std::size_t>(r);
      auto* beside = i < positions ? nullptr : p->stages[i % positions].replicas[ru].work.get();
      s.replicas[ru] = open_replica(options, s, r, p->threads, dealer, beside);
    }
    p->stages.push_back(std::move(s));
  }
  initialise_stages(*p, options);
  return p;
}

named_tensors plain_weights(backend& ops, const segment& layers, const stage_weights& owned, memory_pool& pool) {
  named_tensors all;
  for (std::size_t i = 0; i < owned.newest->tensors.size(); ++i)
    all[layers.parameters()[i].name] = ops.to_host(owned.newest->tensors[i], pool);
  return all;
}

tensor mean_of(std::span<const tensor> replicas, memory_pool& pool) {
  const auto& first = replicas.front();
  auto mean = tensor::allocate(pool, first.type(), first.dims(), memory_use::scratch);
  // A sum of equal numbers may round; those of a frozen layer are equal and stay what they are.
  const auto is_first = [&](const tensor& t) { return std::memcmp(t.raw(), first.raw(), first.bytes()) == 0; };
  if (std::all_of(replicas.begin(), replicas.end(), is_first)) {
    std::memcpy(mean.raw(), first.raw(), first.bytes());
    return mean;
  }
  const auto count = static_cast<std::int64_t>(replicas.size());
  for (std::int64_t i = 0; i < first.elements(); ++i) {
    if (first.type() == dtype::i64) {
      std::int64_t sum = 0;
      for (const auto& r : replicas)
        sum += r.data<std::int64_t>()[i];
      mean.data<std::int64_t>()[i] = sum / count - (sum % count < 0 ? 1 : 0);
    } else {
      float sum = first.data<float>()[i];
      for (const auto& r : replicas.subspan(1))
        sum += r.data<float>()[i];
      mean.data<float>()[i] = count == 1 ? sum : sum / static_cast<float>(count);
    }
  }
  return mean;
}

named_tensors plain_optimizer_state(backend& ops, const segment& layers, const optimizer& step,
                                    const stage_weights& owned, memory_pool& pool) {
  named_tensors all;
  const auto names = step.state_names();
  for (std::size_t i = layers.frozen_parameters(); i < owned.optimizer_states.size(); ++i)
    for (std::size_t n = 0; n < names.size(); ++n)
      all[layers.parameters()[i].name + "." + names[n]] = ops.to_host(owned.optimizer_states[i].tensors[n], pool);
  return all;
}

tensor placed(backend& ops, const tensor& given, const format_ptr& format, memory_use use) {
  const bool is_alike = format != nullptr && !given.is_plain() && format->name() == given.format()->name();
  if (is_alike && dynamic_cast<const wire_format*>(given.format().get()) != nullptr && format->bytes() == given.bytes())
    return {given.type(), given.dims(), given.storage(), format};
  const bool is_foreign = !given.is_plain() && dynamic_cast<const wire_format*>(given.format().get()) != nullptr;
  if (is_foreign)
    throw error("[transfer] a tensor of " + to_string(given.dims()) + " came in layout " + given.format()->name() +
                "; this device has " + (format ? format->name() : "plain"));
  if (is_alike) return ops.copy(given, use);
  const auto plain = ops.to_plain(ops.from_host(given, memory_use::scratch));
  return format == nullptr ? ops.copy(plain, use) : ops.reorder(plain, format, use);
}

void load_weights(stage_unit& s, const named_tensors& weights) {
  s.update_stream().run([&](backend& ops) {
    auto next = std::make_shared<weight_set>();
    next->version = s.owned.newest->version;
    for (std::size_t i = 0; i < s.layers->parameters().size(); ++i) {
      s.owned.newest->tensors[i] = {}; // one set at a time
      if (s.layers->is_repeat(i)) {
        next->tensors.push_back(next->tensors[s.layers->parameters()[i].first_use]);
        continue;
      }
      next->tensors.push_back(
          placed(ops, weights.at(s.layers->parameters()[i].name), s.formats[i], memory_use::weights));
    }
    s.owned.newest = std::move(next);
  });
  s.update_memory().reset_peak();
}

} // namespace penstock::actors
