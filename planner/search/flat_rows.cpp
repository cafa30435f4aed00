// Fills rows once for all slots that cost the same, and picks by memory for each.
#include "planner/search/flat_rows.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace penstock::planner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr cost_terms impossible{.most = infinity};

void set(flat_row& row, std::size_t state, const cost_terms& terms) {
  row.sum[state] = terms.sum;
  row.most[state] = terms.most;
  row.tail[state] = terms.tail;
}

} // namespace

flat_rows::flat_rows(const stage_cost& model, const flat_slots& slots, flat_goal goal)
    : model_(model), slots_(slots), goal_(goal), order_(slots.size()), ends_(model.on().devices.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  const auto key = [&](std::size_t i) { return std::tuple(slots[i].type, slots[i].replicas, slots[i].ring); };
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  const auto states = static_cast<std::size_t>(model.graph().states());
  const auto resize = [&](flat_row& row) {
    for (auto* values : {&row.sum, &row.most, &row.tail})
      values->resize(states);
  };
  rows_.resize(model.options().size());
  for (auto& row : rows_)
    resize(row);
  resize(chosen_);
  for (auto& e : ends_) {
    e.loads.resize(states);
    e.most.assign(rows_.size(), std::vector<std::int64_t>(states));
  }
}

void flat_rows::begin(int state) {
  state_ = state;
  filled_ = {};
  for (auto& e : ends_)
    e.filled = {};
}

template <class Fill>
void flat_rows::extend(range& filled, int first, int end, Fill fill) {
  if (filled.first == filled.end) filled = {first, first};
  if (first < filled.first) {
    fill(first, filled.first);
    filled.first = first;
  }
  if (end > filled.end) {
    fill(filled.end, end);
    filled.end = end;
  }
}

flat_rows::ends& flat_rows::loads_of(const flat_slot& slot, int first, int end) {
  const auto type = slot.type;
  auto& e = ends_[static_cast<std::size_t>(type)];
  if (model_.hands_on() && e.replicas != slot.replicas) e.filled = {};
  e.replicas = slot.replicas;
  const bool is_limited = model_.memory_limit(type) > 0 && goal_ == flat_goal::seconds;
  extend(e.filled, first, end, [&](int from, int until) {
    for (int to = from; to < until; ++to) {
      if (!model_.graph().reaches(state_, to)) continue;
      const auto i = static_cast<std::size_t>(to);
      e.loads[i] = model_.load(type, state_, to, slot.replicas);
      if (!is_limited) continue;
      for (std::size_t o = 0; o < rows_.size(); ++o)
        e.most[o][i] = model_.most_in_flight(e.loads[i], type, model_.options()[o]);
    }
  });
  return e;
}

bool flat_rows::costs_alike(std::size_t a, std::size_t b) const {
  return slots_[a].type == slots_[b].type && slots_[a].replicas == slots_[b].replicas &&
         slots_[a].ring == slots_[b].ring;
}

void flat_rows::fill(flat_row& row, const flat_slot& slot, const ring_cost& ring, const stage_options& how, int first,
                     int end) const {
  const auto& loads = ends_[static_cast<std::size_t>(slot.type)].loads;
  for (int to = first; to < end; ++to) {
    const auto i = static_cast<std::size_t>(to);
    const bool is_stage = model_.graph().reaches(state_, to);
    set(row, i, is_stage ? model_.stage(loads[i], slot.replicas, how, ring) : impossible);
  }
}

void flat_rows::fill_excess(const flat_slot& slot, std::int64_t in_flight, int first, int end) {
  const auto& loads = ends_[static_cast<std::size_t>(slot.type)].loads;
  for (int to = first; to < end; ++to) {
    const auto i = static_cast<std::size_t>(to);
    const bool is_stage = model_.graph().reaches(state_, to);
    set(chosen_, i, {.most = is_stage ? model_.excess_bytes(loads[i], slot.type, in_flight) : infinity});
  }
}

const flat_row& flat_rows::row(std::size_t index, int first, int end) {
  const auto& slot = slots_[index];
  loads_of(slot, first, end);
  const auto in_flight = model_.in_flight(slot.replicas, slot.downstream);
  if (!model_.admits(slot.replicas, in_flight)) {
    std::fill(chosen_.most.begin() + first, chosen_.most.begin() + end, infinity);
    return chosen_;
  }
  if (goal_ == flat_goal::excess_bytes) {
    fill_excess(slot, in_flight, first, end);
    return chosen_;
  }
  if (!costs_alike(filled_slot_, index)) filled_ = {};
  filled_slot_ = index;
  const bool is_limited = model_.memory_limit(slot.type) > 0;
  extend(filled_, first, end, [&](int from, int until) {
    for (std::size_t o = 0; o < rows_.size(); ++o)
      if (const auto& how = model_.options()[o]; may_take(how, slot) && (is_limited || !how.recompute))
        fill(rows_[o], slot, slots_.ring(index), how, from, until);
  });
  if (!is_limited) return fastest_without_limit(slot);
  choose(slot, in_flight, first, end);
  return chosen_;
}

bool flat_rows::may_take(const stage_options& how, const flat_slot& slot) {
  return how.update_lag == 0 || slot.replicas > 1;
}

/// The first that the slot may take: a lag costs no time.
const flat_row& flat_rows::fastest_without_limit(const flat_slot& slot) const {
  std::size_t o = 0;
  while (!may_take(model_.options()[o], slot))
    ++o;
  return rows_[o];
}

/// As stage_cost::decide.
void flat_rows::choose(const flat_slot& slot, std::int64_t in_flight, int first, int end) {
  const auto& most = ends_[static_cast<std::size_t>(slot.type)].most;
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
    auto best = impossible;
    for (std::size_t o = 0; o < rows_.size(); ++o) {
      if (in_flight > most[o][i] || !may_take(model_.options()[o], slot)) continue;
      const cost_terms here{rows_[o].sum[i], rows_[o].most[i], rows_[o].tail[i]};
      if (here.seconds() < best.seconds()) best = here;
    }
    set(chosen_, i, best);
  }
}

cost_terms flat_rows::between(std::size_t index, int from, int to) const {
  const auto& slot = slots_[index];
  const auto load = model_.load(slot.type, from, to, slot.replicas);
  const auto in_flight = model_.in_flight(slot.replicas, slot.downstream);
  if (!model_.admits(slot.replicas, in_flight)) return impossible;
  if (goal_ == flat_goal::excess_bytes) return {.most = model_.excess_bytes(load, slot.type, in_flight)};
  stage_options how;
  cost_terms terms;
  return model_.decide(load, slot.type, slot.replicas, in_flight, slots_.ring(index), how, terms) ? terms : impossible;
}

} // namespace penstock::planner
