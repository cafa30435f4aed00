// Solves the table under a rising ceiling, then reads the best partitions off it in order.
#include "planner/search/flat_search.hpp"

#include "planner/search/flat_table.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <string>

namespace penstock::planner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// One stage on its way from the first to the last: a partition's head, whose best tail the table knows.
struct head {
  double seconds = 0; // of the best whole partition that begins so
  std::size_t slot = 0;
  int state = 0;  // where the slot's stage begins
  int stages = 0; // from here on; 0: not counted
  cost_terms before;
  std::vector<std::pair<std::size_t, int>> path; // slots and states of the stages before
};

struct is_worse {
  bool operator()(const head& a, const head& b) const {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.path.size() < b.path.size();
  }
};

/// On one level of links all devices of a type are alike: where fewer are used, let them be the first.
void number_from_first(candidate& c, const cluster& on) {
  if (on.levels.size() != 1) return;
  std::vector<int> unused;
  for (int type = 0, begin = 0; type < static_cast<int>(on.devices.size()); ++type) {
    int first = std::numeric_limits<int>::max();
    for (const auto& s : c.stages)
      if (on.type_of(s.devices.front()) == type) first = std::min(first, s.devices.front());
    unused.push_back(first - begin);
    begin += on.devices[static_cast<std::size_t>(type)].count;
  }
  for (auto& s : c.stages) {
    const auto shift = unused[static_cast<std::size_t>(on.type_of(s.devices.front()))];
    for (auto& device : s.devices)
      device -= shift;
  }
}

/// Reads partitions off a solved table, best first.
class flat_reader {
public:
  flat_reader(const stage_cost& model, const flat_slots& slots, const flat_table& table)
      : model_(model), slots_(slots), table_(table), rows_(model, slots, flat_goal::seconds) {}

  /// The best `count` with so many stages; 0 where the table does not count them.
  std::vector<candidate> best(int stages, std::size_t count) {
    std::priority_queue<head, std::vector<head>, is_worse> open;
    for (const auto slot : slots_.firsts())
      if (const auto seconds = table_.bound({}, slot, 0, stages); seconds < infinity)
        open.push({seconds, slot, 0, stages, {}, {}});
    std::vector<candidate> found;
    while (!open.empty() && found.size() < count) {
      const auto top = open.top();
      open.pop();
      if (slots_[top.slot].rest == 0)
        found.push_back(complete(top));
      else
        for (auto& next : best_steps(top, count - found.size()))
          open.push(std::move(next));
    }
    return found;
  }

private:
  candidate complete(const head& h) const {
    candidate c;
    auto path = h.path;
    path.emplace_back(h.slot, h.state);
    for (std::size_t i = 0; i < path.size(); ++i)
      c.stages.push_back({.from_state = path[i].second,
                          .to_state = i + 1 < path.size() ? path[i + 1].second : model_.graph().states() - 1,
                          .devices = slots_[path[i].first].devices});
    number_from_first(c, model_.on());
    model_.complete(c);
    return c;
  }

  /// Its best continuations by one stage; each leads to a partition of its own, so more are not needed.
  std::vector<head> best_steps(const head& from, std::size_t count) {
    std::vector<head> steps; // a heap, the worst first
    const auto by_seconds = [](const head& a, const head& b) { return a.seconds < b.seconds; };
    const auto final_state = model_.graph().states() - 1;
    const auto stages = std::max(from.stages - 1, 0);
    for (int to = from.state + 1; to < final_state; ++to) {
      if (!model_.graph().reaches(from.state, to)) continue;
      auto through = cost_terms{.most = -1}; // asked for only where the table goes on
      for (const auto& next : slots_.followers(from.slot)) {
        if (table_.bound(from.before, next.slot, to, stages) == infinity) continue;
        if (through.most < 0) through = from.before + rows_.between(from.slot, from.state, to);
        if (through.most == infinity) break;
        const auto before = through + model_.link(next.link, model_.loads(0).crossing_bytes(to));
        const auto seconds = table_.bound(before, next.slot, to, stages);
        if (steps.size() == count && seconds >= steps.front().seconds) continue;
        steps.push_back({seconds, next.slot, to, stages, before, {}});
        std::push_heap(steps.begin(), steps.end(), by_seconds);
        if (steps.size() <= count) continue;
        std::pop_heap(steps.begin(), steps.end(), by_seconds);
        steps.pop_back();
      }
    }
    for (auto& step : steps) {
      step.path = from.path;
      step.path.emplace_back(from.slot, from.state);
    }
    return steps;
  }

  const stage_cost& model_;
  const flat_slots& slots_;
  const flat_table& table_;
  flat_rows rows_;
};

double best_of(const flat_table& table, const flat_slots& slots, int stages) {
  double best = infinity;
  for (const auto slot : slots.firsts())
    best = std::min(best, table.bound({}, slot, 0, stages));
  return best;
}

/// Solves under a ceiling that rises from `least` until something is below it. Returns the least seconds, infinite if
/// nothing fits.
double solve_rising(flat_table& table, const stage_cost& model, const flat_slots& slots, int stages, double least) {
  // A table of fronts grows faster with its ceiling.
  const auto slacks = model.request().charge == update_charge::flush
                          ? std::vector{1.05, 1.15, 1.3, 1.5, 1.75, 2.1, 2.6, 3.5, 5.0}
                          : std::vector{1.05, 1.2, 1.5, 2.5};
  for (const auto slack : slacks) {
    table.solve(slack * least);
    if (const auto best = best_of(table, slots, stages); best <= slack * least) return best;
  }
  table.solve(infinity);
  return best_of(table, slots, stages);
}

/// Pairs of states times slots: what a search without a ceiling looks at; and cells of the table.
bool is_affordable(const stage_cost& model, double layers, int most_replicas) {
  const double states = model.graph().states(), slots = flat_slots::count(model.on(), most_replicas);
  constexpr double most_steps = 2e10, most_cells = 3e7;
  const double weight = model.request().charge == update_charge::flush ? 4 : 1; // of a cell
  return states * states / 2 * slots * layers <= most_steps && states * slots * layers * weight <= most_cells;
}

class flat_searcher {
public:
  explicit flat_searcher(const stage_cost& model) : model_(model), states_(model.graph().states()) {}

  std::vector<candidate> run() {
    const auto& request = model_.request();
    data_parallel();
    if (request.stages != 1 && states_ > 2 && model_.on().device_count() > 1) {
      const auto best = replicated(least_seconds());
      if (most_replicas() > 1) straight(best);
    }
    return ranked();
  }

private:
  void add(std::vector<candidate> found) {
    for (auto& c : found) {
      if (!(c.seconds < infinity)) continue;
      key of;
      std::size_t most = 1;
      for (const auto& s : c.stages) {
        of.emplace_back(s.to_state, s.devices);
        most = std::max(most, s.devices.size());
      }
      c.origin = c.stages.size() == 1 && most > 1 ? "data-parallel" : most == 1 ? "straight" : "flat";
      found_.try_emplace(std::move(of), std::move(c));
    }
  }

  /// One stage, on all devices of one type, or on the last of them where fewer may be used.
  void data_parallel() {
    const auto& request = model_.request();
    if (request.stages > 1) return;
    const auto& types = model_.on().devices;
    int end = 0;
    for (const auto& type : types) {
      end += type.count;
      if (request.use_all_devices && types.size() > 1) continue;
      candidate c{.stages = {{.from_state = 0, .to_state = states_ - 1}}};
      for (int count = 1; count <= type.count; ++count) {
        c.stages[0].devices.insert(c.stages[0].devices.begin(), end - count);
        if (request.use_all_devices && count < type.count) continue;
        if (count > 64 && count < type.count && !std::has_single_bit(static_cast<unsigned>(count))) continue;
        auto numbered = c;
        number_from_first(numbered, model_.on());
        model_.complete(numbered);
        add({numbered});
      }
    }
  }

  /// One replica everywhere; nothing costs less than `least`.
  void straight(double least) {
    const auto stages = model_.request().stages;
    if (model_.request().use_all_devices && model_.on().device_count() >= states_) return;
    if (!is_affordable(model_, std::max(stages, 1), 1)) return;
    const flat_slots slots(model_, 1);
    const auto table = make_flat_table(model_, slots, {.most_stages = stages});
    if (solve_rising(*table, model_, slots, stages, least) == infinity) return;
    add(flat_reader(model_, slots, *table).best(stages, 1));
  }

  /// What hardly any partition is below. 2bw's with several stages have at most M devices in the first, and M after it:
  /// (K_0 - 1) R_0 <= M, and K_0 is at least 2.
  double least_seconds() const {
    const auto& request = model_.request();
    const auto devices = model_.on().device_count();
    const flat_bound bound(model_);
    if (request.charge != update_charge::every_minibatch) return bound.before(states_ - 1, devices).seconds();
    auto least = bound.before(states_ - 1, std::min(devices, 2 * request.microbatches)).seconds();
    for (const auto& [_, c] : found_)
      least = std::min(least, c.seconds);
    return least;
  }

  /// One micro-batch between flushes is one replica's.
  int most_replicas() const {
    const auto& request = model_.request();
    const bool is_alone =
        request.charge == update_charge::flush && request.microbatches == 1 && !request.use_all_devices;
    return is_alone ? 1 : model_.on().device_count();
  }

  /// Returns the least seconds of all partitions, or what was given where it is not known.
  double replicated(double least) {
    const auto stages = model_.request().stages;
    if (!is_affordable(model_, std::max(stages, 1), most_replicas())) return least;
    const flat_slots slots(model_, most_replicas());
    const auto table = make_flat_table(model_, slots, {.most_stages = stages});
    const auto best = solve_rising(*table, model_, slots, stages, least);
    if (best == infinity) return infinity;
    add(flat_reader(model_, slots, *table).best(stages, model_.request().top));
    variety(slots, best);
    return best;
  }

  /// More to choose from: the best of every number of stages up to what takes little time, and where states and devices
  /// are few all of them.
  void variety(const flat_slots& slots, double best) {
    const auto devices = model_.on().device_count();
    const bool is_small = devices <= 4 || (states_ <= 64 && devices <= 16);
    constexpr double most_steps = 4e6;
    double steps = states_; // of one number of stages
    for (std::size_t slot = 0, followers = 0; slot < slots.size(); ++slot)
      steps = states_ * static_cast<double>(followers += slots.followers(slot).size());
    const auto pinned = model_.request().stages;
    auto most = std::min({devices, states_ - 1, static_cast<int>(most_steps / std::max(steps, 1.0))});
    if (pinned > 0) most = pinned <= most ? pinned : 0;
    if (most < 2) return;
    const auto table = make_flat_table(model_, slots, {.most_stages = most});
    const auto slack = model_.request().charge == update_charge::flush ? 1.02 : 1.25;
    table->solve(is_small ? infinity : slack * best);
    flat_reader reader(model_, slots, *table);
    for (int stages = std::max(pinned, 2); stages <= most; ++stages)
      add(reader.best(stages, is_small ? model_.request().top : 3));
  }

  std::vector<candidate> ranked();

  using key = std::vector<std::pair<int, std::vector<int>>>; // of every stage, where it ends and on what
  const stage_cost& model_;
  int states_;
  std::map<key, candidate> found_;
};

/// The cheapest, but the best of every number of stages and of every origin among them.
std::vector<candidate> flat_searcher::ranked() {
  std::vector<candidate> all;
  for (auto& [of, c] : found_)
    all.push_back(std::move(c));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::set<std::string> origins;
  std::set<std::size_t> counts;
  std::vector<candidate> firsts, others;
  for (auto& c : all) {
    const bool is_new_origin = origins.insert(c.origin).second, is_new_count = counts.insert(c.stages.size()).second;
    (is_new_origin || is_new_count ? firsts : others).push_back(std::move(c));
  }
  all = std::move(firsts);
  std::move(others.begin(), others.end(), std::back_inserter(all));
  if (all.size() > model_.request().top) all.resize(model_.request().top);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return all;
}

} // namespace

std::vector<candidate> search_flat(const stage_cost& model) {
  return flat_searcher(model).run();
}

double least_excess_bytes(const stage_cost& model) {
  const auto stages = model.request().stages;
  const auto devices = model.on().device_count();
  const bool is_whole = is_affordable(model, std::max(stages, 1), devices);
  if (!is_whole && !is_affordable(model, std::max(stages, 1), 1)) return infinity;
  const flat_slots slots(model, is_whole ? devices : 1);
  const auto table = make_flat_table(model, slots, {.most_stages = stages, .goal = flat_goal::excess_bytes});
  table->solve(infinity);
  return best_of(*table, slots, stages);
}

} // namespace penstock::planner
