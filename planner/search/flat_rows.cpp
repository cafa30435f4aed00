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
  for (auto* row : {&plain_, &recomputed_, &chosen_})
    for (auto* values : {&row->sum, &row->most, &row->tail})
      values->resize(states);
  for (auto& e : ends_) {
    e.loads.resize(states);
    e.most_plain.resize(states);
    e.most_recomputed.resize(states);
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

flat_rows::ends& flat_rows::loads_of(int type, int first, int end) {
  auto& e = ends_[static_cast<std::size_t>(type)];
  const bool is_limited = model_.memory_limit(type) > 0 && goal_ == flat_goal::seconds;
  const bool recomputes = model_.request().allow_recompute;
  extend(e.filled, first, end, [&](int from, int until) {
    for (int to = from; to < until; ++to) {
      if (!model_.graph().reaches(state_, to)) continue;
      const auto i = static_cast<std::size_t>(to);
      e.loads[i] = model_.loads(type).between(state_, to);
      if (!is_limited) continue;
      e.most_plain[i] = model_.most_in_flight(e.loads[i], type, false);
      e.most_recomputed[i] = recomputes ? model_.most_in_flight(e.loads[i], type, true) : 0;
    }
  });
  return e;
}

bool flat_rows::costs_alike(std::size_t a, std::size_t b) const {
  return slots_[a].type == slots_[b].type && slots_[a].replicas == slots_[b].replicas &&
         slots_[a].ring == slots_[b].ring;
}

void flat_rows::fill(flat_row& row, const flat_slot& slot, const ring_cost& ring, bool recompute, int first,
                     int end) const {
  const auto& loads = ends_[static_cast<std::size_t>(slot.type)].loads;
  for (int to = first; to < end; ++to) {
    const auto i = static_cast<std::size_t>(to);
    const bool is_stage = model_.graph().reaches(state_, to);
    set(row, i, is_stage ? model_.stage(loads[i], slot.replicas, recompute, ring) : impossible);
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
  const auto& limits = loads_of(slot.type, first, end);
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
    fill(plain_, slot, slots_.ring(index), false, from, until);
    if (is_limited) fill(recomputed_, slot, slots_.ring(index), true, from, until);
  });
  if (!is_limited) return plain_;
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
    const auto& from = in_flight <= limits.most_plain[i] ? plain_ : recomputed_;
    const bool fits = in_flight <= std::max(limits.most_plain[i], limits.most_recomputed[i]);
    set(chosen_, i, fits ? cost_terms{from.sum[i], from.most[i], from.tail[i]} : impossible);
  }
  return chosen_;
}

cost_terms flat_rows::between(std::size_t index, int from, int to) const {
  const auto& slot = slots_[index];
  const auto load = model_.loads(slot.type).between(from, to);
  const auto in_flight = model_.in_flight(slot.replicas, slot.downstream);
  if (!model_.admits(slot.replicas, in_flight)) return impossible;
  if (goal_ == flat_goal::excess_bytes) return {.most = model_.excess_bytes(load, slot.type, in_flight)};
  bool recompute = false;
  cost_terms terms;
  return model_.decide(load, slot.type, slot.replicas, in_flight, slots_.ring(index), recompute, terms) ? terms
                                                                                                        : impossible;
}

} // namespace penstock::planner
