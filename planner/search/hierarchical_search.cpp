// PipeDream's recurrence over the levels of a cluster, under the shared cost model.
#include "planner/search/hierarchical_search.hpp"

#include "planner/search/level_recurrence.hpp"
#include "planner/search/state_chain.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace penstock::planner {

namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();
constexpr int most_parts = 256;
constexpr std::size_t most_surroundings = 16;
constexpr std::size_t most_expanded = 24; // pipelines of the top level that become candidates

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

// Of a component: how often all around it is replicated, and the outermost level that does so (-1: none).
struct surroundings {
  int top = -1;
  int copies = 1;
  auto operator<=>(const surroundings&) const = default;
};

// A stage in the runtime's form.
struct leaf {
  int from = 0;
  int to = 0;
  std::vector<int> devices;
};

// Times of a component with c copies are of one micro-batch in each, so c times the model's.
class hierarchy {
public:
  hierarchy(const stage_cost& model, std::vector<int> chain);

  /// Plans that fit, each complete.
  std::vector<candidate> search();

private:
  /// What the whole model costs at best where the top level's parts are not divided; infinite where that does not fit.
  double seconds_of_undivided_parts();
  double ideal_seconds() const;
  std::vector<level_pipeline> pipelines_below(double limit);

  int top_level() const { return static_cast<int>(groups_.size()) - 1; }
  int states() const { return static_cast<int>(chain_.size()); }
  int part_size(int level) const { return level == 0 ? 1 : sizes_[at(level - 1)]; }
  const stage_load& load_of(int from, int to) const { return loads_[at(to) * chain_.size() + at(from)]; }

  void count_surroundings();
  surroundings inside(const surroundings& around, int level, int copies) const;
  ring_cost ring_of(int level, int parts, const surroundings& around) const;
  std::int64_t room(std::size_t option, int from, int to, int replicas) const;
  double stage_seconds(int from, int to, int replicas, const ring_cost& ring, const surroundings& around) const;
  double cut_seconds(int level, int senders, int state, const surroundings& around) const;
  int most_copies(int level, const surroundings& around) const;
  std::vector<std::vector<double>> at_least(int level, const surroundings& around, int first, int last) const;
  level_costs cuts(int level, const surroundings& around, int first, int last) const;
  level_costs undivided(int level, const surroundings& around, int first, int last) const;
  level_costs costs(int level, const surroundings& around, int first, int last);
  const std::vector<double>& best_of(int level, const surroundings& around);
  std::vector<leaf> expand(int level, const surroundings& around, const std::vector<level_stage>& stages,
                           int first_device);
  candidate candidate_of(const std::vector<leaf>& leaves) const;

  const stage_cost& model_;
  std::vector<int> chain_;
  std::vector<int> groups_;
  std::vector<int> sizes_; // devices in a component of each level
  std::vector<bool> is_shared_;
  std::vector<stage_load> loads_;
  std::vector<std::vector<std::int64_t>> room_; // most in flight, by the model's options and range; empty: not limited
  bool rounds_copies_ = false;
  double limit_ = infinity;
  double caution_ = 1; // memory is charged for so many times the devices that compute's share puts downstream
  std::map<std::tuple<int, surroundings>, std::vector<double>> best_;
};

hierarchy::hierarchy(const stage_cost& model, std::vector<int> chain) : model_(model), chain_(std::move(chain)) {
  int size = 1;
  for (const auto& level : model.on().levels) {
    if (level.group == 1) continue; // joins nothing
    groups_.push_back(level.group);
    sizes_.push_back(size *= level.group);
    is_shared_.push_back(level.shared);
  }
  loads_.resize(chain_.size() * chain_.size());
  for (int to = 1; to < states(); ++to)
    for (int from = 0; from < to; ++from)
      loads_[at(to) * chain_.size() + at(from)] = model.loads(0).between(chain_[at(from)], chain_[at(to)]);
  if (model.memory_limit(0) > 0)
    for (const auto& how : model.options()) {
      auto& room = room_.emplace_back();
      for (const auto& load : loads_)
        room.push_back(model.most_in_flight(load, 0, how));
    }
  count_surroundings();
}

void hierarchy::count_surroundings() {
  std::set<surroundings> all{{}};
  for (int level = top_level(); level > 0; --level)
    for (const auto& around : std::set<surroundings>(all))
      for (int copies = 2; copies <= groups_[at(level)]; ++copies)
        all.insert(inside(around, level, copies));
  rounds_copies_ = all.size() > most_surroundings + 1;
}

surroundings hierarchy::inside(const surroundings& around, int level, int copies) const {
  if (copies == 1) return around;
  const auto all = around.copies * copies;
  return {around.top < 0 ? level : around.top,
          rounds_copies_ ? static_cast<int>(std::bit_floor(static_cast<unsigned>(all))) : all};
}

// Of a stage on that many whole parts in every copy. Copies lie evenly spread.
ring_cost hierarchy::ring_of(int level, int parts, const surroundings& around) const {
  const auto components = around.top < 0 ? 1 : sizes_[at(around.top)] / sizes_[at(level)];
  std::vector<int> devices;
  for (int copy = 0; copy < around.copies; ++copy)
    for (int i = 0; i < parts * part_size(level); ++i)
      devices.push_back(copy * components / around.copies * sizes_[at(level)] + i);
  return model_.ring(devices);
}

// The most in flight of a stage on so many replicas.
std::int64_t hierarchy::room(std::size_t option, int from, int to, int replicas) const {
  if (!model_.hands_on()) return room_[option][at(to) * chain_.size() + at(from)];
  return model_.most_in_flight(model_.load(0, chain_[at(from)], chain_[at(to)], replicas), 0, model_.options()[option]);
}

double hierarchy::stage_seconds(int from, int to, int replicas, const ring_cost& ring,
                                const surroundings& around) const {
  const auto& load = load_of(from, to);
  const auto all = replicas * around.copies;
  if (!rounds_copies_ && !model_.keeps_columns(all)) return infinity;
  const auto devices = model_.on().device_count();
  int downstream = 0;
  if (to + 1 < states()) {
    const auto& whole = load_of(0, states() - 1);
    const auto& done = load_of(0, to);
    const auto seconds = whole.forward_seconds + whole.backward_seconds;
    const auto share = seconds > 0 ? 1 - (done.forward_seconds + done.backward_seconds) / seconds : 0;
    downstream = static_cast<int>(
        std::lround(std::clamp(caution_ * share * devices, 1.0, std::max(1.0, double(devices - all)))));
  }
  // (K_s - 1) R_s is largest on the first stage, which has all other devices downstream where all are used.
  const auto k = model_.in_flight(all, downstream);
  if (from == 0 && model_.request().use_all_devices &&
      !model_.admits(all, model_.in_flight(all, std::max(0, devices - all))))
    return infinity;
  auto least = infinity;
  for (std::size_t o = 0; o < model_.options().size(); ++o) {
    const auto& how = model_.options()[o];
    if (how.update_lag > 0 && all == 1) continue;
    if (room_.empty() ? how.recompute : k > room(o, from, to, all)) continue;
    const auto terms = model_.stage(load, all, how, ring);
    least = std::min(least, terms.most + terms.tail);
  }
  return around.copies * least;
}

// What a stage pays for a cut of that level when `senders` of its devices in each copy exchange messages across it: the
// model's link takes the longer of its two stages'.
double hierarchy::cut_seconds(int level, int senders, int state, const surroundings& around) const {
  if (state == 0 || state + 1 == states()) return 0;
  auto link = model_.link(std::vector<int>{0}, std::vector<int>{part_size(level)});
  link.period_per_byte /= around.copies * (is_shared_[at(level)] ? 1 : senders);
  return around.copies * model_.link(link, model_.loads(0).crossing_bytes(chain_[at(state)])).most;
}

// The replications that were rounded down to these, by less than half at each level above.
int hierarchy::most_copies(int level, const surroundings& around) const {
  const auto room = model_.on().device_count() / sizes_[at(level)];
  const auto most = std::int64_t{around.copies} << (top_level() - level);
  return rounds_copies_ ? static_cast<int>(std::min<std::int64_t>(most, room)) : around.copies;
}

// Compute, and the all-reduce that what is around makes of all weights, in equal shares.
std::vector<std::vector<double>> hierarchy::at_least(int level, const surroundings& around, int first, int last) const {
  const auto& request = model_.request();
  if (request.charge == update_charge::flush) return {};
  double per_byte = 0;
  for (const auto& l : ring_of(0, 1, around).levels)
    per_byte = std::max(per_byte, l.seconds_per_byte);
  if (request.charge == update_charge::every_minibatch) per_byte *= double(around.copies) / request.microbatches;
  std::vector<std::vector<double>> sums(2);
  for (int state = first; state <= last; ++state) {
    const auto& load = load_of(first, state);
    sums[0].push_back((load.forward_seconds + load.backward_seconds) / part_size(level));
    sums[1].push_back(load.weight_bytes * per_byte / part_size(level));
  }
  return sums;
}

level_costs hierarchy::cuts(int level, const surroundings& around, int first, int last) const {
  level_costs c;
  c.states = last - first + 1;
  c.parts = groups_[at(level)];
  c.limit = limit_ * most_copies(level, around);
  c.at_least = at_least(level, around, first, last);
  c.stage.assign(at(c.parts) * at(c.states) * at(c.states), infinity);
  for (int parts = 1; parts <= c.parts; ++parts)
    for (int state = first; state <= last; ++state) {
      const auto senders = parts * part_size(level);
      c.inner_cut.push_back(cut_seconds(level, senders, state, around));
      c.outer_cut.push_back(level < top_level() ? cut_seconds(level + 1, senders, state, around) : 0);
    }
  return c;
}

level_costs hierarchy::undivided(int level, const surroundings& around, int first, int last) const {
  auto c = cuts(level, around, first, last);
  for (int parts = 1; parts <= c.parts; ++parts) {
    const auto ring = ring_of(level, parts, around);
    for (int to = 1; to < c.states; ++to)
      for (int from = to - 1; from >= 0 && c.least(from, to) < c.limit * parts; --from)
        c.stage[c.index(parts, to) + at(from)] =
            stage_seconds(first + from, first + to, parts * part_size(level), ring, around);
  }
  return c;
}

level_costs hierarchy::costs(int level, const surroundings& around, int first, int last) {
  if (level == 0) return undivided(level, around, first, last);
  auto c = cuts(level, around, first, last);
  for (int parts = 1; parts <= c.parts; ++parts) {
    const auto& part = best_of(level - 1, inside(around, level, parts));
    for (int to = 1; to < c.states; ++to)
      for (int from = to - 1; from >= 0 && c.least(from, to) < c.limit * parts; --from)
        c.stage[c.index(parts, to) + at(from)] = part[at(first + to) * chain_.size() + at(first + from)] / parts;
  }
  return c;
}

const std::vector<double>& hierarchy::best_of(int level, const surroundings& around) {
  const auto key = std::make_tuple(level, around);
  if (const auto found = best_.find(key); found != best_.end()) return found->second;
  const level_recurrence all(costs(level, around, 0, states() - 1));
  if (around.copies * sizes_[at(level)] < model_.on().device_count()) return best_[key] = all.best_of_all_ranges();
  // A component that is replicated over all devices has the whole model.
  std::vector<double> best(loads_.size(), infinity);
  best[at(states() - 1) * chain_.size()] = all.best(0, states() - 1).seconds;
  return best_[key] = std::move(best);
}

std::vector<leaf> hierarchy::expand(int level, const surroundings& around, const std::vector<level_stage>& stages,
                                    int first_device) {
  std::vector<leaf> leaves;
  for (const auto& stage : stages) {
    std::vector<leaf> inner{{stage.from, stage.to, {first_device}}};
    if (level > 0) {
      const auto part = inside(around, level, stage.parts);
      auto within = level_recurrence(costs(level - 1, part, stage.from, stage.to)).best(0, stage.to - stage.from);
      for (auto& s : within.stages)
        s.from += stage.from, s.to += stage.from;
      inner = expand(level - 1, part, within.stages, first_device);
      if (inner.empty()) return {};
    }
    for (auto& l : inner) {
      std::vector<int> devices;
      for (const auto device : l.devices)
        for (int part = 0; part < stage.parts; ++part)
          devices.push_back(device + part * part_size(level));
      l.devices = std::move(devices);
      leaves.push_back(std::move(l));
    }
    first_device += stage.parts * part_size(level);
  }
  return leaves;
}

candidate hierarchy::candidate_of(const std::vector<leaf>& leaves) const {
  candidate c;
  bool is_straight = true;
  for (const auto& l : leaves) {
    c.stages.push_back({chain_[at(l.from)], chain_[at(l.to)], l.devices});
    is_straight = is_straight && l.devices.size() == 1;
  }
  c.origin = leaves.size() == 1 ? "data-parallel" : is_straight ? "straight" : "hierarchical";
  return c;
}

double hierarchy::seconds_of_undivided_parts() {
  limit_ = infinity;
  return level_recurrence(undivided(top_level(), {}, 0, states() - 1)).best(0, states() - 1).seconds;
}

// Of the whole compute in equal shares, with nothing to communicate.
double hierarchy::ideal_seconds() const {
  const auto terms = model_.stage(load_of(0, states() - 1), model_.on().device_count(), {}, {});
  return terms.most + terms.tail;
}

// Limits rise: one near the best keeps the recurrence's windows small, and what lies a little above the best is wanted
// too. What the recurrence finds and the model then refuses for its memory is looked for again with more caution.
std::vector<candidate> hierarchy::search() {
  constexpr double slack = 1.25;
  for (const auto caution : {1.0, 2.0, 1e9}) {
    caution_ = caution;
    const auto safe = slack * seconds_of_undivided_parts();
    const auto hopeful = slack * ideal_seconds();
    std::vector<level_pipeline> pipelines;
    for (const auto limit : {hopeful, 2 * hopeful, 4 * hopeful, safe})
      if (pipelines.empty() && limit > 0 && limit <= safe) pipelines = pipelines_below(limit);
    std::vector<candidate> found;
    for (const auto& pipeline : pipelines) {
      limit_ = pipeline.seconds * (1 + 1e-9);
      const auto leaves = expand(top_level(), {}, pipeline.stages, 0);
      if (leaves.empty()) continue; // the limit is as near as rounding
      if (auto c = candidate_of(leaves); model_.complete(c)) found.push_back(std::move(c));
    }
    if (!found.empty() || pipelines.empty()) return found;
  }
  return {};
}

// Of the top level, best first.
std::vector<level_pipeline> hierarchy::pipelines_below(double limit) {
  best_.clear();
  limit_ = limit;
  const level_recurrence top(costs(top_level(), {}, 0, states() - 1));
  std::vector<level_pipeline> pipelines;
  const auto parts = groups_.back();
  for (int used = model_.request().use_all_devices ? parts : 1; used <= parts; ++used)
    for (auto& found : top.best_by_shape(used))
      pipelines.push_back(std::move(found));
  std::stable_sort(pipelines.begin(), pipelines.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  if (pipelines.size() > most_expanded) pipelines.resize(most_expanded);
  return pipelines;
}

bool have_equal_stages(const candidate& a, const candidate& b) {
  return std::equal(
      a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(), [](const auto& x, const auto& y) {
        return x.from_state == y.from_state && x.to_state == y.to_state && x.devices.size() == y.devices.size();
      });
}

std::vector<candidate> best_distinct(std::vector<candidate> found, const search_request& request) {
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::vector<candidate> kept;
  for (auto& c : found) {
    if (kept.size() == request.top) break;
    if (request.stages > 0 && static_cast<int>(c.stages.size()) != request.stages) continue;
    if (std::none_of(kept.begin(), kept.end(), [&](const auto& k) { return have_equal_stages(k, c); }))
      kept.push_back(std::move(c));
  }
  return kept;
}

int most_states(const cluster& c) {
  int widest = 32;
  for (const auto& level : c.levels)
    widest = std::max(widest, level.group);
  return 512 * 32 / widest;
}

} // namespace

std::vector<candidate> search_hierarchical(const stage_cost& model) {
  const auto& c = model.on();
  const auto joins = std::count_if(c.levels.begin(), c.levels.end(), [](const auto& l) { return l.group > 1; });
  const auto is_too_wide = [](const auto& l) { return l.group > most_parts; };
  if (joins < 2 || c.devices.size() > 1 || std::any_of(c.levels.begin(), c.levels.end(), is_too_wide)) return {};
  hierarchy levels(model, longest_chain(model.graph(), model.loads(0), most_states(c)));
  auto found = levels.search();
  candidate alone{"data-parallel", {{0, model.graph().states() - 1, std::vector<int>(at(c.device_count()))}}};
  std::iota(alone.stages[0].devices.begin(), alone.stages[0].devices.end(), 0);
  if (model.complete(alone)) found.push_back(std::move(alone));
  return best_distinct(std::move(found), model.request());
}

} // namespace penstock::planner
