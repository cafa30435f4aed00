// Runs the searches for every setting and gathers what they find.
#include "planner/explore/proposals.hpp"

#include "planner/explore/interleaved_proposals.hpp"
#include "planner/explore/pinned_search.hpp"
#include "planner/explore/streaming.hpp"
#include "planner/search/column_blocks.hpp"
#include "planner/search/flat_search.hpp"
#include "planner/search/hierarchical_search.hpp"
#include "planner/search/two_buffer_search.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>

namespace penstock::planner {

namespace {

// Beyond so many devices data parallelism is tried on powers of two and on all.
constexpr int most_replicas_counted_singly = 64;
// Which links a stage spans depends on every stage after it, which search_flat pays for in time cubic in the devices.
constexpr int most_devices_on_levels = 64;
constexpr int most_devices_on_one_level = 512;
constexpr int most_devices_at_once = 128;
constexpr int most_devices_in_blocks = 4096;
// Above any model's memory.
constexpr double most_bytes = 1e16;
constexpr double excess_tolerance = 1e-3;

double step_of(const setting& how, const candidate& what) {
  return what.seconds * (how.search.charge == update_charge::every_minibatch ? how.search.microbatches : 1);
}

/// False where the request takes some of a cluster's devices and a component is left short of them.
bool has_full_levels(const cluster& c) {
  const auto places = std::accumulate(c.levels.begin(), c.levels.end(), std::int64_t{1},
                                      [](std::int64_t product, const link_level& l) { return product * l.group; });
  return places == c.device_count();
}

class proposer {
public:
  proposer(const exploration& e, const pins& fixed) : e_(e), fixed_(fixed), shape_{cut_states(), fixed.replicas} {}

  void add(const setting& how) {
    for (const auto& c : clusters()) {
      if (how.schedule == "data-parallel") add_data_parallel(how, c);
      if (how.schedule == "model-parallel" && fixed_.stages <= 1) add_one_device(how, c);
      if (how.schedule == "interleaved")
        for (auto& p : propose_interleaved(e_, fixed_, how, c, shape_.cuts))
          found_.push_back(std::move(p));
      if (has_stages(how)) add_searched(how, c);
    }
  }

  std::vector<proposal> take() {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const proposal& a, const proposal& b) { return a.step_seconds < b.step_seconds; });
    return std::move(found_);
  }

  /// Several stages without a pipeline only where they are asked for.
  bool has_stages(const setting& how) const {
    if (how.schedule == "model-parallel") return fixed_.chosen_schedules || fixed_.stages > 1;
    return how.schedule != "data-parallel" && how.schedule != "interleaved"; // that has a search of its own
  }

  /// By how many bytes a device misses for some partition of this setting to fit; infinity where there is none.
  double least_excess(setting how) {
    const auto& c = clusters().front();
    double least = INFINITY;
    for (const auto blocks : column_blocks(how, c)) {
      how.search.column_blocks = blocks;
      least = std::min(least, least_excess(how, c));
    }
    return least;
  }

  void add_with_more_memory(const setting& how, double more) {
    add_searched(how, with_more_memory(clusters().front(), more * (1 + excess_tolerance) + 1));
  }

private:
  double least_excess(const setting& how, const cluster& c) const {
    const stage_cost model(e_.model, e_.graph, c, how.search);
    if (!is_pinned()) return least_excess_bytes(model);
    if (fixed_.stages == 1) {
      double least = INFINITY;
      for (const auto& what : one_stage(model))
        least = std::min(least, model.excess_bytes(what));
      return least;
    }
    const auto fits = [&](double more) {
      const auto larger = with_more_memory(c, more);
      return !search_pinned(stage_cost(e_.model, e_.graph, larger, how.search), shape_).empty();
    };
    double too_little = 0, enough = 1e6;
    for (; !fits(enough); enough *= 2) {
      too_little = enough;
      if (enough > most_bytes) return INFINITY;
    }
    while (enough > too_little * (1 + excess_tolerance) + 1) {
      const auto middle = (too_little + enough) / 2;
      (fits(middle) ? enough : too_little) = middle;
    }
    return enough;
  }

  static bool has_limits(const cluster& c) {
    return std::any_of(c.devices.begin(), c.devices.end(), [](const device_type& t) { return t.memory_bytes > 0; });
  }

  static cluster with_more_memory(cluster c, double more) {
    for (auto& type : c.devices)
      if (type.memory_bytes > 0) type.memory_bytes += more;
    return c;
  }

  bool is_pinned() const { return !shape_.cuts.empty() || !shape_.replicas.empty() || fixed_.stages == 1; }

  std::vector<int> cut_states() const {
    std::vector<int> order(e_.model.layers.size()), states;
    std::iota(order.begin(), order.end(), 0);
    for (const auto layer : fixed_.first_layers) {
      const auto state = e_.graph.state_after(order, static_cast<std::size_t>(layer));
      if (state < 0)
        throw std::invalid_argument("first layers: no stage can begin at '" +
                                    e_.model.layers[static_cast<std::size_t>(layer)].name +
                                    "', wanted a layer that need not stay with those before it");
      states.push_back(state);
    }
    return states;
  }

  /// The cluster as the searches see it: once more with the chips' own memory as limit where devices stream.
  const std::vector<cluster>& clusters() {
    if (!clusters_.empty()) return clusters_;
    clusters_.push_back(with_streaming_profiles(e_.machines, e_.model));
    if (!has_streaming_devices(e_.machines)) return clusters_;
    auto on_chip = clusters_.front();
    for (auto& type : on_chip.devices)
      if (type.streaming) type.memory_bytes = type.streaming->on_chip_bytes;
    clusters_.push_back(std::move(on_chip));
    return clusters_;
  }

  void add_searched(setting how, const cluster& c) {
    for (const auto errs : {estimate::cautious, estimate::hopeful}) {
      how.search.errs = errs;
      if (errs == estimate::cautious || is_worth_two(how)) add_estimated(how, c);
    }
  }

  /// A flush's search is slow on graphs of very many states.
  bool is_worth_two(const setting& how) const {
    constexpr int most_states = 512;
    return how.search.charge != update_charge::flush || e_.graph.states() <= most_states;
  }

  void add_estimated(const setting& how, const cluster& c) {
    if (has_limits(c)) {
      keep_all(how, search(how, c));
      return;
    }
    // Schedules that differ in what they hold only, such as gpipe and 1f1b, have the same best partitions then.
    const auto known = unlimited_.try_emplace({how.search.charge, how.search.microbatches, how.schedule == fbp_schedule,
                                               how.search.errs, how.search.update_lag});
    if (known.second) known.first->second = search(how, c);
    keep_all(how, known.first->second);
  }

  /// Where minibatches hand columns on, what a replica holds of them depends on all replica counts: each number of
  /// blocks that these can have is searched by itself. {0} where it does not matter.
  std::vector<std::int64_t> column_blocks(const setting& how, const cluster& c) const {
    if (!hands_on(e_.model) || how.schedule == fbp_schedule || fixed_.stages == 1) return {0};
    if (!shape_.replicas.empty()) return {column_blocks_of(shape_.replicas)};
    const bool by_group = how.search.charge == update_charge::every_group; // any replica counts do
    if (by_group && !has_limits(c)) return {0};
    if (!has_limits(c) && how.microbatches_given) return {how.search.microbatches};
    auto all = possible_column_blocks(c.device_count());
    if (!has_limits(c) && all.front() == 0) return {0};
    std::erase_if(all, [&](std::int64_t blocks) {
      return blocks > 0 && !by_group && rounded_microbatches(how, blocks, fixed_.batch) == 0;
    });
    if (has_limits(c)) return all;
    std::vector<std::int64_t> widest; // without limits the fewer blocks are among the more
    for (const auto blocks : all)
      if (std::none_of(all.begin(), all.end(), [&](auto more) { return more > blocks && more % blocks == 0; }))
        widest.push_back(blocks);
    return widest;
  }

  std::vector<candidate> search(setting how, const cluster& c) const {
    std::vector<candidate> found;
    for (const auto blocks : column_blocks(how, c)) {
      how.search.column_blocks = blocks;
      auto more = search_with_blocks(how, c);
      std::move(more.begin(), more.end(), std::back_inserter(found));
    }
    return found;
  }

  std::vector<candidate> search_with_blocks(const setting& how, const cluster& c) const {
    const stage_cost model(e_.model, e_.graph, c, how.search);
    if (is_pinned()) return fixed_.stages == 1 ? one_stage(model) : search_pinned(model, shape_);
    std::vector<candidate> found;
    const auto append = [&](std::vector<candidate> more) {
      found.insert(found.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    // What two searches find is named after the narrower one.
    if (how.search.charge == update_charge::every_minibatch) append(search_two_buffer(model));
    if (c.levels.size() > 1 && has_full_levels(c) && how.schedule != fbp_schedule) append(search_hierarchical(model));
    if (c.levels.size() == 1 && c.device_count() > most_devices_at_once)
      append(search_in_blocks(how, c, model));
    else if (c.levels.size() == 1 || c.device_count() <= most_devices_on_levels)
      append(search_flat(model));
    else if (found.empty() || c.device_count() <= most_devices_on_one_level)
      append(search_as_one_level(how, c, model));
    return found;
  }

  /// A large flat cluster as blocks of devices joined by the same links: the hierarchical search takes them level by
  /// level. The few devices beyond the last full block stay idle; data parallelism has them all.
  std::vector<candidate> search_in_blocks(const setting& how, cluster c, const stage_cost& model) const {
    auto found = std::vector<candidate>{};
    if (c.devices.size() != 1) return found;
    const auto used = std::min(c.device_count(), most_devices_in_blocks);
    const auto block = static_cast<int>(std::sqrt(used));
    c.devices.front().count = block * (used / block);
    auto outer = c.levels.front();
    outer.group = used / block;
    c.levels.front().group = block;
    c.levels.push_back(outer);
    const stage_cost blocks(e_.model, e_.graph, c, how.search);
    for (auto& what : search_hierarchical(blocks))
      if (model.complete(what)) found.push_back(std::move(what));
    return found;
  }

  /// As if all devices were joined by the outermost level; costs are the cluster's own again.
  std::vector<candidate> search_as_one_level(const setting& how, cluster c, const stage_cost& model) const {
    auto joining = c.levels.back();
    joining.group = c.device_count();
    c.levels = {joining};
    std::vector<candidate> found;
    for (auto& what : search_flat(stage_cost(e_.model, e_.graph, c, how.search)))
      if (model.complete(what)) found.push_back(std::move(what));
    return found;
  }

  void keep_all(const setting& how, const std::vector<candidate>& candidates) {
    for (const auto& what : candidates)
      keep(how, what);
  }

  void keep(const setting& how, candidate what) {
    const auto replicas = replicas_of(what);
    const bool is_equal = std::all_of(replicas.begin(), replicas.end(), [&](int r) { return r == replicas.front(); });
    // One stage is the same under every flush: it is tried under its own name, with an M that suits it.
    const bool is_whole = what.stages.size() == 1 && how.search.charge == update_charge::flush;
    const std::string own_name = replicas.front() > 1 ? "data-parallel" : "model-parallel";
    if (is_whole && how.schedule != own_name && may_try(own_name)) return;
    if (how.schedule == "pipedream-vertical-sync" && !is_equal) return;
    if (how.schedule == fbp_schedule && (!is_equal || replicas.front() != 1)) return;
    if (what.stages.size() == 1 && replicas.front() > 1 && !is_pinned()) what.origin = "data-parallel";
    std::vector<std::tuple<int, std::vector<int>, bool, std::int64_t>> identity;
    for (const auto& stage : what.stages)
      identity.emplace_back(stage.to_state, stage.devices, stage.recompute, stage.update_lag);
    if (!seen_.insert({how.schedule, how.search.microbatches, std::move(identity)}).second) return;
    const auto seconds = step_of(how, what);
    found_.push_back({how, std::move(what), seconds});
  }

  bool may_try(const std::string& schedule) const {
    return std::find(fixed_.schedules.begin(), fixed_.schedules.end(), schedule) != fixed_.schedules.end();
  }

  /// The whole model on some devices of a type; where it does not fit its K, recomputation and seconds are as if.
  candidate whole_model(const stage_cost& model, const std::string& origin, int first, int replicas) const {
    candidate what;
    what.origin = origin;
    stage_choice stage{.from_state = 0, .to_state = e_.graph.states() - 1};
    stage.devices.resize(static_cast<std::size_t>(replicas));
    std::iota(stage.devices.begin(), stage.devices.end(), first);
    what.stages.push_back(std::move(stage));
    if (model.complete(what)) return what;
    auto& only = what.stages.front();
    const auto load = model.loads(model.on().type_of(first)).between(only.from_state, only.to_state);
    only.recompute = model.request().allow_recompute;
    only.in_flight = model.in_flight(replicas, 0);
    what.seconds = model.stage(load, replicas, {.recompute = only.recompute}, model.ring(only.devices)).seconds();
    return what;
  }

  std::vector<candidate> one_stage(const stage_cost& model) const {
    std::vector<candidate> all;
    int first = 0;
    for (const auto& type : model.on().devices) {
      for (int replicas = 1; replicas <= type.count; replicas = next_count(replicas, type.count))
        if (fixed_.replicas.empty() || replicas == fixed_.replicas.front())
          all.push_back(whole_model(model, "given", first, replicas));
      first += type.count;
    }
    return all;
  }

  void add_one_device(const setting& how, const cluster& c) {
    if (!fixed_.replicas.empty() && fixed_.replicas.front() != 1) return;
    const stage_cost model(e_.model, e_.graph, c, how.search);
    int first = 0;
    for (const auto& type : c.devices) {
      keep(how, whole_model(model, "straight", first, 1));
      first += type.count;
    }
  }

  static int next_count(int replicas, int all) {
    if (replicas < most_replicas_counted_singly || replicas == all) return replicas + 1;
    return std::min(2 * replicas, all);
  }

  void add_data_parallel(const setting& how, const cluster& c) {
    int first = 0;
    for (const auto& type : c.devices) {
      for (int replicas = 2; replicas <= type.count; replicas = next_count(replicas, type.count))
        if (fixed_.replicas.empty() || fixed_.replicas.front() == replicas) add_replicas(how, c, first, replicas);
      first += type.count;
    }
  }

  /// The setting's M is of one replica, unless the request gave it.
  void add_replicas(setting how, const cluster& c, int first, int replicas) {
    if (!how.microbatches_given) {
      if (how.search.microbatches > fixed_.batch / replicas) return;
      how.search.microbatches *= replicas;
      how.search.samples /= replicas;
      if (how.search.samples < how.least_samples) return;
    }
    const stage_cost model(e_.model, e_.graph, c, how.search);
    keep(how, whole_model(model, "data-parallel", first, replicas));
  }

  const exploration& e_;
  const pins& fixed_;
  fixed_shape shape_;
  std::vector<cluster> clusters_;
  /// By charge, M, only unreplicated, which way the costs err, and lag.
  std::map<std::tuple<update_charge, int, bool, estimate, std::int64_t>, std::vector<candidate>> unlimited_;
  std::set<std::tuple<std::string, int, std::vector<std::tuple<int, std::vector<int>, bool, std::int64_t>>>> seen_;
  std::vector<proposal> found_;
};

} // namespace

cluster first_devices(const cluster& c, int count) {
  if (count >= c.device_count()) return c;
  auto result = c;
  result.devices.clear();
  int left = count;
  for (auto type : c.devices) {
    type.count = std::min(type.count, left);
    left -= type.count;
    if (type.count > 0) result.devices.push_back(std::move(type));
  }
  result.levels.clear();
  int joined = 1;
  for (auto level : c.levels) {
    level.group = std::min(level.group, (count + joined - 1) / joined);
    joined *= level.group;
    result.levels.push_back(level);
    if (joined >= count) break;
  }
  return result;
}

std::vector<proposal> propose(const exploration& e, const std::vector<setting>& settings, const pins& fixed) {
  proposer all(e, fixed);
  for (const auto& how : settings)
    all.add(how);
  return all.take();
}

std::vector<proposal> propose_least_missing(const exploration& e, const std::vector<setting>& settings,
                                            const pins& fixed) {
  proposer all(e, fixed);
  const setting* best = nullptr;
  double least = INFINITY;
  for (const auto& how : settings)
    if (const auto excess = all.has_stages(how) ? all.least_excess(how) : INFINITY; excess < least) {
      least = excess;
      best = &how;
    }
  if (best) all.add_with_more_memory(*best, least);
  return all.take();
}

std::vector<proposal> select(std::vector<proposal> all, std::size_t count) {
  std::map<std::string, std::size_t> of_schedule;
  std::set<std::tuple<std::string, int>> settings;
  std::set<std::string> origins;
  std::set<std::size_t> stages;
  std::vector<proposal> selected;
  for (auto& p : all) {
    const bool is_first_of_setting = settings.emplace(p.how.schedule, p.how.search.microbatches).second;
    const bool is_first_of_origin = origins.insert(p.what.origin).second;
    const bool is_first_of_stages = stages.insert(p.what.stages.size()).second;
    const bool is_among_its_schedules = of_schedule[p.how.schedule]++ < (count + 3) / 4;
    if (selected.size() < count || is_among_its_schedules || is_first_of_setting || is_first_of_origin ||
        is_first_of_stages)
      selected.push_back(std::move(p));
  }
  return selected;
}

} // namespace penstock::planner
