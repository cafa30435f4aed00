// Runs a model over and over on as many workers as will train it, and takes the medians.
#include "actors/profiler/profile_model.hpp"

#include "actors/made_up_data.hpp"
#include "actors/policy/settle_plan.hpp"
#include "actors/profiler/byte_counter.hpp"
#include "actors/profiler/describe_model.hpp"
#include "actors/profiler/pass_times.hpp"
#include "actors/source/microbatch_loader.hpp"
#include "actors/stage/stage_compute.hpp"
#include "kernels/check.hpp"
#include "kernels/usable_cores.hpp"
#include "planner/profile/doubts.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace penstock::actors {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

// A layer's call, whose times are there when the work is complete.
struct layer_span {
  int layer = 0;
  layer_pass pass = layer_pass::forward;
  event_ptr begin, end;
};

template <class Wanted>
std::vector<double> sum_layers(const std::vector<layer_span>& seen, std::size_t layers, const Wanted& wanted) {
  std::vector<double> seconds(layers, 0);
  for (const auto& s : seen)
    if (wanted(s.pass)) seconds[static_cast<std::size_t>(s.layer)] += seconds_between(*s.begin, *s.end);
  return seconds;
}

// One worker's model with a micro-batch of random samples.
class profiled_worker {
public:
  profiled_worker(pipeline& parts, std::size_t index, std::int64_t samples, const std::vector<std::int64_t>& extents,
                  const run_options& run, const std::function<bool()>& should_stop)
      : should_stop_(should_stop), parts_(parts), stage_(parts.stages.front()), replica_(stage_.replicas[index]),
        run_(run), samples_(samples), extents_(extents), weights_(stage_.owned.newest) {}

  void make_inputs() {
    const made_up_data data(*parts_.net, samples_, run_.seed, extents_);
    microbatch_loader loader(parts_.net, data, {.batch = samples_, .seed = run_.seed}, 1);
    const auto loaded = loader.load(0, 0);
    info_ = loaded.info;
    inputs_ = fed_of(*stage_.layers, loaded);
  }

  // Two micro-batches and, on the first worker, an update. Times may be null; they are there after settle().
  void pass(backend& ops, bool updates, size_times* times) {
    std::vector<tensor> gradients(stage_.layers->parameters().size());
    replica_.observe = [this](const layer_observation& o) {
      if (should_stop_ && should_stop_()) throw error("profile: stopped before it was complete");
      seen_.push_back({o.layer, o.pass, o.begin, o.end});
    };
    microbatch(ops, gradients, times ? &times->forward : nullptr, times ? &times->backward : nullptr);
    microbatch(ops, gradients, times ? &times->forward : nullptr, times ? &times->accumulating : nullptr);
    replica_.observe = nullptr;
    if (!updates) return;
    outcome unread;
    const auto begin = ops.record();
    std::vector<uses_across> nowhere_else;
    add_uses(ops, *stage_.layers, gradients, nowhere_else);
    compute_update(ops, parts_, stage_, run_, {.learning_rate = 0}, gradients, stage_.owned, false, unread);
    if (times)
      later_.then([times, begin, end = ops.record()] { times->update.push_back(seconds_between(*begin, *end)); });
  }

  // When what was posted is complete: its times.
  void settle() { later_.settle(); }

  // A micro-batch whose backward is split: what share of each layer's is the weights' part.
  void split_pass(backend& ops, std::vector<std::vector<double>>& shares) {
    microbatch_record record = forward_pass(ops, nullptr);
    std::vector<tensor> gradients(stage_.layers->parameters().size());
    outcome unread;
    seen_.clear();
    replica_.observe = [&](const layer_observation& o) { seen_.push_back({o.layer, o.pass, o.begin, o.end}); };
    compute_backward_input(ops, parts_, stage_, replica_, replica_.states, {}, *weights_, record, unread);
    compute_backward_weight(ops, parts_, stage_, replica_, *weights_, record, gradients, unread);
    replica_.observe = nullptr;
    later_.then([seen = std::exchange(seen_, {}), &shares] {
      const auto weights =
          sum_layers(seen, shares.size(), [](auto pass) { return pass == layer_pass::backward_weight; });
      const auto inputs =
          sum_layers(seen, shares.size(), [](auto pass) { return pass != layer_pass::backward_weight; });
      for (std::size_t l = 0; l < weights.size(); ++l)
        shares[l].push_back(weights[l] > 0 ? weights[l] / (weights[l] + inputs[l]) : 0);
    });
  }

  // What a split backward keeps for its weights' part, by the first layer that needs it; the model's input is nobody's.
  void count_delayed_bytes(backend& ops, std::vector<planner::layer_cost>& costs) {
    microbatch_record record = forward_pass(ops, nullptr);
    outcome unread;
    compute_backward_input(ops, parts_, stage_, replica_, replica_.states, {}, *weights_, record, unread);
    std::set<const void*> counted;
    for (const auto& t : inputs_)
      counted.insert(t.storage().identity());
    for (auto& c : costs)
      c.delayed_bytes = 0;
    for (auto work = record.weight_work.layers.rbegin(); work != record.weight_work.layers.rend(); ++work)
      for (const auto& t : work->kept)
        if (t && counted.insert(t.storage().identity()).second)
          costs[static_cast<std::size_t>(work->layer)].delayed_bytes += static_cast<double>(t.storage().size());
  }

  void count_bytes(backend& ops, byte_counter& counter) {
    std::vector<tensor> gradients(stage_.layers->parameters().size());
    replica_.observe = [&counter](const layer_observation& o) { counter.observe(o); };
    microbatch(ops, gradients, nullptr, nullptr);
    replica_.observe = nullptr;
  }

  const std::vector<tensor>& inputs() const { return inputs_; }

private:
  microbatch_record forward_pass(backend& ops, pass_times* times) {
    microbatch_record record;
    record.id = {run_.seed, 0, 0, info_};
    record.weights = weights_;
    outcome unread;
    seen_.clear();
    const auto begin = ops.record();
    carried_columns carried(stage_.layers->carried());
    compute_forward(ops, parts_, stage_, replica_, replica_.states, carried, inputs_, record, loss_, unread);
    keep(times, begin, ops.record());
    return record;
  }

  void microbatch(backend& ops, std::vector<tensor>& gradients, pass_times* forward, pass_times* backward) {
    auto record = forward_pass(ops, forward);
    outcome unread;
    seen_.clear();
    const auto begin = ops.record();
    compute_backward(ops, parts_, stage_, replica_, replica_.states, {}, *weights_, record, gradients, unread);
    keep(backward, begin, ops.record());
  }

  void keep(pass_times* times, const event_ptr& begin, const event_ptr& end) {
    if (times == nullptr) return;
    later_.then([times, begin, end, seen = std::exchange(seen_, {})] {
      times->add(sum_layers(seen, times->layers.size(), [](auto) { return true; }), seconds_between(*begin, *end));
    });
  }

  const std::function<bool()>& should_stop_;
  pipeline& parts_;
  stage_unit& stage_;
  replica_unit& replica_;
  const run_options& run_;
  std::int64_t samples_;
  std::vector<std::int64_t> extents_; // empty: nominal
  weights_ptr weights_;               // held, so that an update writes a new version, as it does in a pipeline
  microbatch_info info_;
  std::vector<tensor> inputs_; // not of the replica's memory: a source or a neighbour owns them
  loss_metrics loss_;          // nobody reads it
  std::vector<layer_span> seen_;
  outcome later_; // nothing of it is fetched
};

// The other workers compute the same until the measured one is done. A pass is asked for when the one before is done.
class busy_workers {
public:
  busy_workers(pipeline& parts, std::int64_t samples, const std::vector<std::int64_t>& extents, const run_options& run,
               const std::function<bool()>& should_stop) {
    for (std::size_t i = 1; i < parts.stages.front().replicas.size(); ++i) {
      workers_.push_back(std::make_unique<profiled_worker>(parts, i, samples, extents, run, should_stop));
      auto ended = std::make_shared<std::promise<void>>();
      done_.push_back(ended->get_future());
      keep_busy(*parts.stages.front().replicas[i].work, *workers_.back(), ended);
    }
  }
  ~busy_workers() {
    stop_ = true;
    for (auto& d : done_)
      d.wait();
  }
  busy_workers(const busy_workers&) = delete;
  busy_workers& operator=(const busy_workers&) = delete;

private:
  void keep_busy(stream& on, profiled_worker& worker, const std::shared_ptr<std::promise<void>>& ended) {
    on.post(
        [&worker](backend& ops) {
          if (worker.inputs().empty()) worker.make_inputs();
          worker.pass(ops, false, nullptr);
        },
        [this, &on, &worker, ended](const std::exception_ptr& fault) {
          if (!fault && !stop_) return keep_busy(on, worker, ended);
          fault ? ended->set_exception(fault) : ended->set_value();
        });
  }

  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<profiled_worker>> workers_;
  std::vector<std::future<void>> done_;
};

void check_options(const profile_options& o) {
  const auto within = [](const char* name, auto value, auto least, auto most) {
    if (!(value >= least && value <= most))
      throw usage_error(std::string("profile: ") + name + " is " + std::to_string(value) + ", wanted from " +
                        std::to_string(least) + " to " + std::to_string(most));
  };
  if (o.samples.empty()) throw usage_error("profile: no micro-batch sizes are given");
  for (const auto n : o.samples)
    within("a micro-batch size", n, std::int64_t{1}, std::int64_t{1} << 24);
  auto sorted = o.samples;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw usage_error("profile: a micro-batch size is given twice");
  if (o.workers.empty()) throw usage_error("profile: no number of workers is given");
  for (const int w : o.workers)
    within("the number of workers", w, 1, 1024);
  within("warmup", o.warmup, 0, 1000);
  within("repeats", o.repeats, 3, 100000);
  within("seconds", o.seconds, 0.0, 1e6);
}

// Of each number of threads a worker can have, the most workers that have it.
std::vector<int> distinct_workers(const std::vector<int>& given) {
  std::map<int, int> by_threads;
  for (const int w : given) {
    auto& most = by_threads[std::max(1, usable_cores() / w)];
    most = std::max(most, w);
  }
  std::vector<int> workers;
  for (const auto& [threads, most] : by_threads)
    workers.push_back(most);
  return workers;
}

// Times and what is sent are the mean of all shapes, memory is the most.
void add_share(const planner::measurement& m, double share, planner::measurement& all) {
  all.layers.resize(m.layers.size());
  all.update_seconds.resize(m.layers.size(), 0);
  if (share > 0) all.spread = std::max(all.spread, m.spread);
  for (std::size_t l = 0; l < m.layers.size(); ++l) {
    const auto& one = m.layers[l];
    auto& sum = all.layers[l];
    for (const auto part : {&planner::layer_cost::forward_seconds, &planner::layer_cost::backward_seconds,
                            &planner::layer_cost::accumulate_seconds, &planner::layer_cost::weight_seconds,
                            &planner::layer_cost::output_bytes, &planner::layer_cost::kept_output_bytes})
      sum.*part += share * one.*part;
    for (const auto part : {&planner::layer_cost::kept_bytes, &planner::layer_cost::workspace_bytes,
                            &planner::layer_cost::backward_workspace_bytes, &planner::layer_cost::delayed_bytes})
      sum.*part = std::max(sum.*part, one.*part);
    if (share > 0) all.update_seconds[l] += share * m.update_seconds[l];
  }
}

// Measures with one number of workers.
class profiler {
public:
  profiler(const std::shared_ptr<const model>& net, const profile_options& options, int workers)
      : options_(options), workers_(workers), shapes_(options.shapes) {
    if (shapes_.empty()) shapes_.push_back({.extents = {}, .share = 1});
    run_.optimizer = options.optimizer;
    run_.seed = options.seed;
    run_.reference_kernels = options.reference_kernels;
    run_.device = options.device;
    run_.stop_on_nonfinite = false;
    parts_ = build_pipeline(*settle_request({.schedule = "data-parallel", .replicas = {workers}}, *net), run_, net);
  }

  const pipeline& parts() const { return *parts_; }
  int passes_of(std::size_t sizes) const { return static_cast<int>(sizes) * passes_per_size(); }

  /// `told` counts the passes of all profilers, of which there are `total`. `again` follows what is told.
  std::vector<planner::measurement> run(const planner::profile& p, const std::vector<std::int64_t>& sizes, int& told,
                                        int total, const std::string& again = "") {
    again_ = again;
    weight_bytes_.clear();
    for (const auto& l : p.layers)
      weight_bytes_.push_back(l.weight_bytes);
    std::vector<planner::measurement> all;
    for (const auto samples : sizes) {
      const int end = told + passes_per_size();
      all.push_back(measure(samples, told, total));
      told = end; // fewer passes were made where the time was up
    }
    return all;
  }

private:
  static constexpr int split_repeats = 3; // a share of one pass's own times: it needs few
  int passes_per_shape() const { return options_.warmup + options_.repeats + 1; }
  int passes_per_size() const { return static_cast<int>(shapes_.size()) * passes_per_shape(); }

  void tell(std::int64_t samples, int& told, int total) const {
    if (!options_.progress) return;
    const auto count = [](std::int64_t n, const std::string& word) {
      return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
    };
    const auto what = count(samples, "sample") + ", " + count(workers_, "worker") + " of " +
                      count(parts_->threads, "thread") + again_;
    if (!options_.progress(told++, total, what)) throw error("profile: stopped before it was complete");
  }

  planner::measurement measure(std::int64_t samples, int& told, int total) {
    planner::measurement all{.samples = samples, .threads = parts_->threads};
    for (const auto& shape : shapes_) {
      const int end = told + passes_per_shape();
      add_share(measure(samples, shape, told, total), shape.share, all);
      told = end;
    }
    return all;
  }

  planner::measurement measure(std::int64_t samples, const shape_share& shape, int& told, int total) {
    auto& replica = parts_->stages.front().replicas.front();
    planner::measurement m{.samples = samples, .threads = parts_->threads};
    m.layers.resize(weight_bytes_.size());
    profiled_worker worker(*parts_, 0, samples, shape.extents, run_, options_.should_stop);
    tell(samples, told, total);
    replica.work->run([&](backend& ops) {
      worker.make_inputs();
      worker.pass(ops, true, nullptr); // primitives are made in the first pass, with workspace of their own
      byte_counter counter(*parts_->stages.front().layers, replica.memory->memory(), worker.inputs(), weight_bytes_);
      worker.count_bytes(ops, counter);
      counter.write(m.layers);
      worker.count_delayed_bytes(ops, m.layers);
    });
    if (shape.share == 0) return m;
    const busy_workers others(*parts_, samples, shape.extents, run_, options_.should_stop);
    for (int i = 0; i < options_.warmup; ++i) {
      tell(samples, told, total);
      replica.work->run([&](backend& ops) { worker.pass(ops, true, nullptr); });
    }
    size_times times(weight_bytes_.size());
    const auto begin = clock::now();
    const double limit = options_.seconds / static_cast<double>(shapes_.size());
    for (int i = 0; i < options_.repeats && (i < 3 || seconds_since(begin) < limit); ++i) {
      tell(samples, told, total);
      replica.work->run([&](backend& ops) {
        worker.pass(ops, true, &times);
        if (i < split_repeats) worker.split_pass(ops, times.weight_share);
      });
      worker.settle();
    }
    keep(times, m);
    return m;
  }

  void keep(const size_times& times, planner::measurement& m) const {
    const auto forward = times.forward.medians();
    const auto backward = times.backward.medians();
    const auto accumulating = times.accumulating.medians();
    const double all_weights = std::accumulate(weight_bytes_.begin(), weight_bytes_.end(), 0.0);
    const double update = median(times.update);
    m.spread = std::max(times.forward.spread(), times.backward.spread());
    for (std::size_t l = 0; l < m.layers.size(); ++l) {
      m.layers[l].forward_seconds = forward[l];
      m.layers[l].backward_seconds = backward[l];
      m.layers[l].weight_seconds = backward[l] * std::clamp(median(times.weight_share[l]), 0.0, 1.0);
      m.layers[l].accumulate_seconds = std::max(0.0, accumulating[l] - backward[l]);
      // An update reads and writes each weight a fixed number of times.
      m.update_seconds.push_back(all_weights > 0 ? update * weight_bytes_[l] / all_weights : 0);
    }
  }

  const profile_options& options_;
  int workers_;
  std::vector<shape_share> shapes_;
  run_options run_;
  std::unique_ptr<pipeline> parts_;
  std::vector<double> weight_bytes_; // per layer
  std::string again_;
};

double whole_seconds(const planner::measurement& m) {
  double sum = 0;
  for (const auto& c : m.layers)
    sum += c.forward_seconds + c.backward_seconds;
  return sum;
}

// Others' work only ever lengthens a measurement.
void measure_doubtful_again(const std::shared_ptr<const model>& net, const profile_options& options,
                            const std::vector<int>& workers, planner::profile& result) {
  std::set<std::size_t> doubtful;
  for (const auto& doubt : planner::doubts_of(result))
    doubtful.insert(doubt.measurements.begin(), doubt.measurements.end());
  int told = 0;
  for (const int w : workers) {
    std::vector<std::int64_t> sizes;
    const int threads = std::max(1, usable_cores() / w);
    for (const auto i : doubtful)
      if (result.measurements[i].threads == threads) sizes.push_back(result.measurements[i].samples);
    if (sizes.empty()) continue;
    profiler one(net, options, w);
    const int total = one.passes_of(doubtful.size());
    for (auto& m : one.run(result, sizes, told, total, ", again"))
      for (auto& before : result.measurements)
        if (before.samples == m.samples && before.threads == m.threads && whole_seconds(m) < whole_seconds(before))
          std::swap(before, m);
  }
  for (const auto& doubt : planner::doubts_of(result))
    result.doubts.push_back(doubt.text);
}

} // namespace

std::vector<int> useful_worker_counts() {
  const int cores = usable_cores();
  std::vector<int> counts;
  for (int w = 1; w <= cores; ++w)
    if (cores % w == 0) counts.push_back(w);
  return counts;
}

planner::profile profile_model(const std::shared_ptr<const model>& net, const std::string& model_options,
                               const profile_options& options) {
  check_options(options);
  const auto need = net->least_training_samples();
  for (const auto n : options.samples)
    if (n < need.samples)
      throw usage_error("profile: a micro-batch size is " + std::to_string(n) + ", wanted at least the " +
                        std::to_string(need.samples) + " that " + need.layer + " of " + net->name() +
                        " can be trained on");
  planner::profile result;
  result.model_options = model_options;
  const auto workers = distinct_workers(options.workers);
  int told = 0;
  for (const int w : workers) {
    profiler one(net, options, w);
    describe_model(result, one.parts(), options);
    const int total = one.passes_of(options.samples.size()) * static_cast<int>(workers.size());
    for (auto& m : one.run(result, options.samples, told, total))
      result.measurements.push_back(std::move(m));
  }
  measure_doubtful_again(net, options, workers, result);
  planner::check_profile(result);
  return result;
}

} // namespace penstock::actors
