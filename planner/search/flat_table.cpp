// Fills the table from the last state to the first, pruned by what lies before and by the ceiling.
#include "planner/search/flat_table.hpp"

#include <algorithm>
#include <limits>

namespace penstock::planner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A cell holds what is worth keeping of the suffixes of one kind. Without flush that is the least bottleneck.
using bottleneck = double;
// With flush, all terms that no others beat in sum, most and tail at once.
using front = std::vector<cost_terms>;

bool is_none(bottleneck cell) {
  return cell == infinity;
}
bool is_none(const front& cell) {
  return cell.empty();
}

/// How much has been spent on fronts, and how many ends of one kind are kept since that became too much.
struct front_effort {
  static constexpr double most_steps = 3e8; // about a second
  static constexpr std::size_t kept_beyond = 4;
  double steps = 0;
  std::size_t most_kept = std::numeric_limits<std::size_t>::max();
};

/// What may still come before a suffix, and what is too dear.
struct pruning {
  cost_terms before;
  double ceiling = infinity;
  front_effort* effort = nullptr;
  double seconds(const cost_terms& terms) const { return (before + terms).seconds(); }
  bool allows(const cost_terms& terms) const { return seconds(terms) <= ceiling; }
};

void keep(bottleneck& cell, const cost_terms& terms, const pruning& limits) {
  if (terms.most < cell && limits.allows(terms)) cell = terms.most;
}

void keep(front& cell, const cost_terms& terms, const pruning& limits) {
  if (!limits.allows(terms)) return;
  const auto beats = [](const cost_terms& a, const cost_terms& b) {
    return a.sum <= b.sum && a.most <= b.most && a.tail <= b.tail;
  };
  limits.effort->steps += 1 + static_cast<double>(cell.size());
  for (const auto& old : cell)
    if (beats(old, terms)) return;
  std::erase_if(cell, [&](const cost_terms& old) { return beats(terms, old); });
  cell.push_back(terms);
  if (cell.size() <= limits.effort->most_kept) return;
  cell.erase(std::max_element(cell.begin(), cell.end(), [&](const cost_terms& a, const cost_terms& b) {
    return limits.seconds(a) < limits.seconds(b);
  }));
}

void keep_all(bottleneck& cell, bottleneck from, const cost_terms& part, const pruning& limits) {
  keep(cell, {.most = std::max(from, part.most)}, limits);
}

void keep_all(front& cell, const front& from, const cost_terms& part, const pruning& limits) {
  for (const auto& terms : from)
    keep(cell, terms + part, limits);
}

/// A stage before each of the suffixes `next`, which begin where it ends.
void keep_row(bottleneck& cell, const bottleneck* next, const flat_row& row, std::size_t first, std::size_t end,
              const pruning& limits) {
  // Four at a time, for a minimum waits for the one before.
  bottleneck least[4] = {infinity, infinity, infinity, infinity};
  const auto* most = row.most.data();
  auto to = first;
  for (; to + 4 <= end; to += 4)
    for (std::size_t i = 0; i < 4; ++i)
      least[i] = std::min(least[i], std::max(most[to + i], next[to + i]));
  for (; to < end; ++to)
    least[0] = std::min(least[0], std::max(most[to], next[to]));
  keep(cell, {.most = std::min(std::min(least[0], least[1]), std::min(least[2], least[3]))}, limits);
}

void keep_row(front& cell, const front* next, const flat_row& row, std::size_t first, std::size_t end,
              const pruning& limits) {
  for (auto to = first; to < end; ++to)
    if (!next[to].empty() && row.most[to] < infinity)
      keep_all(cell, next[to], {row.sum[to], row.most[to], row.tail[to]}, limits);
}

double least(const cost_terms& before, bottleneck cell) {
  return std::max(before.most, cell);
}

double least(const cost_terms& before, const front& cell) {
  double seconds = infinity;
  for (const auto& terms : cell)
    seconds = std::min(seconds, (before + terms).seconds());
  return seconds;
}

template <class Cell>
Cell nothing() {
  if constexpr (std::is_same_v<Cell, bottleneck>)
    return infinity;
  else
    return {};
}

template <class Cell>
class table final : public flat_table {
public:
  table(const stage_cost& model, const flat_slots& slots, const flat_table_options& options)
      : model_(model), slots_(slots), options_(options), rows_(model, slots, options.goal), bound_(model),
        states_(static_cast<std::size_t>(model.graph().states())), layers_(std::max(options.most_stages, 1)) {}

  void solve(double ceiling) override {
    ceiling_ = ceiling;
    find_windows();
    if (fill()) return;
    effort_.most_kept = front_effort::kept_beyond;
    fill();
  }

  double bound(const cost_terms& before, std::size_t slot, int state, int stages) const override {
    if (stages > layers_) return infinity;
    return least(before, suffix_[suffix_at(is_counted() ? stages - 1 : 0, slot, state)]);
  }

private:
  // Suffixes are read slot by slot for one state, what comes after a stage state by state for one slot.
  std::size_t suffix_at(int layer, std::size_t slot, int state) const {
    return (static_cast<std::size_t>(state) * static_cast<std::size_t>(layers_) + static_cast<std::size_t>(layer)) *
               slots_.size() +
           slot;
  }
  std::size_t after_at(int layer, std::size_t slot, int state) const {
    return (static_cast<std::size_t>(layer) * slots_.size() + slot) * states_ + static_cast<std::size_t>(state);
  }
  bool is_counted() const { return options_.most_stages > 0; }
  /// False where it was given up.
  bool fill() {
    const auto cells = static_cast<std::size_t>(layers_) * slots_.size() * states_;
    suffix_.assign(cells, nothing<Cell>());
    after_.assign(cells, nothing<Cell>());
    for (int state = static_cast<int>(states_) - 2; state >= 0; --state) {
      rows_.begin(state);
      for (const auto slot : rows_.order())
        fill_suffix(slot, state);
      if (state > 0)
        for (std::size_t slot = 0; slot < slots_.size(); ++slot)
          fill_after(slot, state);
      if (effort_.steps > front_effort::most_steps && is_exact()) return false;
    }
    return true;
  }

  bool is_exact() const { return effort_.most_kept > front_effort::kept_beyond; }
  bool is_bounded() const { return options_.goal == flat_goal::seconds; }

  struct window { // of states
    int first = 0;
    int end = 0;
    bool holds(int state) const { return first <= state && state < end; }
  };
  const window& window_of(int downstream) const { return windows_[static_cast<std::size_t>(downstream)]; }

  /// For every number of devices after a state, the states that a partition within the ceiling may pass through.
  void find_windows() {
    const auto devices = model_.on().device_count();
    const auto states = static_cast<int>(states_);
    windows_.assign(static_cast<std::size_t>(devices) + 1, {0, states - 1});
    if (!is_bounded()) return;
    for (int after = 0; after <= devices; ++after) {
      auto& w = windows_[static_cast<std::size_t>(after)];
      const auto may_pass = [&](int state) {
        return (bound_.before(state, devices - after) + bound_.after(state, after)).seconds() <= ceiling_;
      };
      while (w.first < w.end && !may_pass(w.first))
        ++w.first;
      while (w.first < w.end && !may_pass(w.end - 1))
        --w.end;
    }
  }

  pruning limits_of(int state, int devices_before) {
    return {is_bounded() ? bound_.before(state, devices_before) : cost_terms{}, ceiling_, &effort_};
  }

  /// Partitions whose first stage of the rest begins at `state` on `slot`.
  void fill_suffix(std::size_t index, int state) {
    const auto& slot = slots_[index];
    if (!window_of(slot.downstream + slot.replicas).holds(state)) return;
    // What is before needs devices, and devices that must be used need a stage before.
    if (state > 0 ? slot.left == 0 : slot.left > 0 && model_.request().use_all_devices) return;
    const auto limits = limits_of(state, slot.left);
    if (slot.rest == 0) {
      const auto terms = rows_.between(index, state, static_cast<int>(states_) - 1);
      if (terms.most < infinity) keep(suffix_[suffix_at(0, index, state)], terms, limits);
      return;
    }
    const auto& ends = window_of(slot.downstream);
    const auto first = std::max(state + 1, ends.first);
    const auto end = is_bounded() ? std::min(ends.end, bound_.end_of_stage(state, slot.replicas, ceiling_)) : ends.end;
    if (first >= end) return;
    const auto& row = rows_.row(index, first, end);
    for (int layer = is_counted() ? 1 : 0; layer < layers_; ++layer)
      keep_row(suffix_[suffix_at(layer, index, state)], &after_[after_at(layer, index, 0)], row,
               static_cast<std::size_t>(first), static_cast<std::size_t>(end), limits);
  }

  /// What may follow a stage on `slot` that ends at `state`, the link between them included.
  void fill_after(std::size_t index, int state) {
    const auto& slot = slots_[index];
    if (slot.rest == 0 || !window_of(slot.downstream).holds(state)) return;
    const auto limits = limits_of(state, slot.left + slot.replicas);
    const auto bytes = model_.loads(0).crossing_bytes(state);
    for (const auto& next : slots_.followers(index)) {
      const auto link = is_bounded() ? model_.link(next.link, bytes) : cost_terms{};
      for (int layer = is_counted() ? 1 : 0; layer < layers_; ++layer) {
        const auto& from = suffix_[suffix_at(is_counted() ? layer - 1 : 0, next.slot, state)];
        if (!is_none(from)) keep_all(after_[after_at(layer, index, state)], from, link, limits);
      }
    }
  }

  const stage_cost& model_;
  const flat_slots& slots_;
  flat_table_options options_;
  flat_rows rows_;
  flat_bound bound_;
  std::size_t states_;
  int layers_;
  double ceiling_ = infinity;
  front_effort effort_;
  std::vector<window> windows_; // per number of devices after
  std::vector<Cell> suffix_;    // by layer, slot, state at which the slot's stage begins
  std::vector<Cell> after_;     // by layer, slot, state at which the slot's stage ends
};

} // namespace

std::unique_ptr<flat_table> make_flat_table(const stage_cost& model, const flat_slots& slots,
                                            const flat_table_options& options) {
  if (model.request().charge == update_charge::flush && options.goal == flat_goal::seconds)
    return std::make_unique<table<front>>(model, slots, options);
  return std::make_unique<table<bottleneck>>(model, slots, options);
}

} // namespace penstock::planner
