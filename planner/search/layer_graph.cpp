// The states of a model's graph: enumerated as unions of what each layer needs, never as subsets.
#include "planner/search/layer_graph.hpp"

#include <algorithm>
#include <bit>
#include <compare>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_set>

namespace penstock::planner {

namespace {

using bits = std::vector<std::uint64_t>;

bool has(const bits& set, int i) {
  return (set[static_cast<std::size_t>(i) / 64] >> (i % 64) & 1) != 0;
}

void insert(bits& set, int i) {
  set[static_cast<std::size_t>(i) / 64] |= std::uint64_t{1} << (i % 64);
}

/// Returns whether `to` grew.
bool merge(bits& to, const bits& from) {
  bool grew = false;
  for (std::size_t w = 0; w < to.size(); ++w) {
    grew |= (from[w] & ~to[w]) != 0;
    to[w] |= from[w];
  }
  return grew;
}

bool is_subset(const std::uint64_t* a, const std::uint64_t* b, std::size_t words) {
  for (std::size_t w = 0; w < words; ++w)
    if ((a[w] & ~b[w]) != 0) return false;
  return true;
}

int count(const bits& set) {
  return std::accumulate(set.begin(), set.end(), 0, [](int n, std::uint64_t w) { return n + std::popcount(w); });
}

struct hash_of_bits {
  std::size_t operator()(const bits& set) const {
    std::uint64_t h = 0;
    for (const auto w : set)
      h = (std::rotl(h, 29) ^ w) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(h ^ (h >> 32));
  }
};

/// For each layer the first of its group: layers that no cut may separate.
std::vector<int> groups_of(const profile& p, const std::vector<std::vector<int>>& together) {
  const auto layers = static_cast<int>(p.layers.size());
  std::vector<int> leader(p.layers.size());
  std::iota(leader.begin(), leader.end(), 0);
  const auto find = [&](int i) {
    while (leader[static_cast<std::size_t>(i)] != i)
      i = leader[static_cast<std::size_t>(i)] = leader[static_cast<std::size_t>(leader[static_cast<std::size_t>(i)])];
    return i;
  };
  const auto join = [&](int a, int b) {
    a = find(a), b = find(b);
    leader[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  };
  for (int i = 1; i < layers; ++i)
    if (p.layers[static_cast<std::size_t>(i)].fused_with_previous) join(i - 1, i);
  for (const auto& list : together)
    for (const auto i : list) {
      if (i < 0 || i >= layers)
        throw std::invalid_argument("layers to keep together name layer " + std::to_string(i) + ", wanted 0 to " +
                                    std::to_string(layers - 1));
      join(list.front(), i);
    }
  for (int i = 0; i < layers; ++i)
    leader[static_cast<std::size_t>(i)] = find(i);
  return leader;
}

/// Layers that are done together, because they must stay together or need each other's.
struct block {
  int first = 0;              ///< of its layers
  bits layers;                ///< its own
  bits closure;               ///< with all that they need
  std::vector<int> producers; ///< layers outside that it reads
};

/// Per layer all that it needs, itself included.
std::vector<bits> closures_of(const profile& p, const std::vector<int>& leader) {
  const auto layers = p.layers.size();
  std::vector<bits> closure(layers, bits((layers + 63) / 64));
  for (std::size_t i = 0; i < layers; ++i)
    insert(closure[i], static_cast<int>(i));
  for (bool grew = true; grew;) {
    grew = false;
    for (std::size_t i = 0; i < layers; ++i) {
      for (const auto input : p.layers[i].inputs)
        if (input >= 0) grew |= merge(closure[i], closure[static_cast<std::size_t>(input)]);
      if (const auto l = static_cast<std::size_t>(leader[i]); l != i) {
        grew |= merge(closure[l], closure[i]);
        grew |= merge(closure[i], closure[l]);
      }
    }
  }
  return closure;
}

std::vector<block> blocks_of(const profile& p, const std::vector<int>& leader) {
  const auto closure = closures_of(p, leader);
  std::vector<block> blocks;
  std::map<bits, std::size_t> known; // layers with the same closure need each other
  for (std::size_t i = 0; i < closure.size(); ++i) {
    const auto [at, is_new] = known.try_emplace(closure[i], blocks.size());
    if (is_new) blocks.push_back({static_cast<int>(i), bits(closure[i].size()), closure[i], {}});
    insert(blocks[at->second].layers, static_cast<int>(i));
  }
  for (auto& b : blocks)
    for (std::size_t i = 0; i < closure.size(); ++i)
      if (has(b.layers, static_cast<int>(i)))
        for (const auto input : p.layers[i].inputs)
          if (input >= 0 && !has(b.layers, input)) b.producers.push_back(input);
  return blocks;
}

/// Every set that can be done first, the empty one included; none if there are more than `limit`. `attached`: beyond
/// the first block only what has a producer that is done, and what that needs.
std::optional<std::vector<bits>> enumerate(const std::vector<block>& blocks, int limit, bool attached) {
  const auto is_next = [&](const bits& done, const block& b) {
    if (has(done, b.first)) return false;
    const auto is_done = [&](int i) { return has(done, i); };
    return attached ? std::any_of(b.producers.begin(), b.producers.end(), is_done)
                    : std::all_of(b.producers.begin(), b.producers.end(), is_done);
  };
  std::unordered_set<bits, hash_of_bits> known;
  std::vector<bits> states;
  const auto add = [&](bits set) {
    if (known.insert(set).second) states.push_back(std::move(set));
  };
  add(bits(blocks.front().layers.size()));
  if (attached) add(blocks.front().closure);
  for (std::size_t i = 0; i < states.size() && states.size() <= static_cast<std::size_t>(limit); ++i)
    for (const auto& b : blocks)
      if (is_next(states[i], b)) {
        auto next = states[i];
        merge(next, b.closure);
        add(std::move(next));
      }
  bits all(blocks.front().layers.size());
  for (const auto& b : blocks)
    merge(all, b.layers);
  add(std::move(all)); // parts that nothing joins to the first layer
  if (states.size() > static_cast<std::size_t>(limit)) return std::nullopt;
  return states;
}

/// Lengths of the prefixes of the profile's order that separate no group.
std::vector<int> prefixes_of(const std::vector<int>& leader) {
  const auto layers = static_cast<int>(leader.size());
  std::vector<int> last(leader.size()); // of each group, at its leader
  for (int i = 0; i < layers; ++i)
    last[static_cast<std::size_t>(leader[static_cast<std::size_t>(i)])] = i;
  std::vector<int> lengths{0};
  int needed = 0; // the last layer that must be done with those before
  for (int i = 0; i < layers; ++i) {
    needed = std::max(needed, last[static_cast<std::size_t>(leader[static_cast<std::size_t>(i)])]);
    if (needed <= i) lengths.push_back(i + 1);
  }
  return lengths;
}

bool is_prefix(const bits& set, int length) {
  return length == 0 || (has(set, length - 1) && [&] {
           for (int i = 0; i < length; ++i)
             if (!has(set, i)) return false;
           return true;
         }());
}

/// Into an order in which subsets come first: by time, so that equal shares of the work are runs of states, then by
/// size.
void sort_by_time(std::vector<bits>& sets, const profile& p) {
  struct key {
    double seconds = 0;
    int layers = 0;
    bits set;
    auto operator<=>(const key&) const = default;
  };
  std::vector<key> keys;
  for (auto& set : sets) {
    key k{.layers = count(set), .set = std::move(set)};
    if (!p.measurements.empty())
      for (std::size_t i = 0; i < p.layers.size(); ++i)
        if (has(k.set, static_cast<int>(i)))
          k.seconds += p.measurements[0].layers[i].forward_seconds + p.measurements[0].layers[i].backward_seconds;
    keys.push_back(std::move(k));
  }
  std::sort(keys.begin(), keys.end());
  for (std::size_t i = 0; i < sets.size(); ++i)
    sets[i] = std::move(keys[i].set);
}

} // namespace

layer_graph::layer_graph(const profile& p, const std::vector<std::vector<int>>& together, graph_limits limits)
    : layers_(static_cast<int>(p.layers.size())) {
  if (p.layers.empty()) throw std::invalid_argument("the profile has no layers, wanted at least one");
  if (limits.states < 2)
    throw std::invalid_argument("the limit of states is " + std::to_string(limits.states) + ", wanted at least 2");
  const auto leader = groups_of(p, together);
  std::optional<std::vector<bits>> sets;
  // Blocks take layers x layers bits, and a graph much larger than the limit cannot keep it unless grouped.
  if (layers_ / 4 <= limits.states) {
    const auto blocks = blocks_of(p, leader);
    sets = enumerate(blocks, std::min(limits.free_starts, limits.states), false);
    if (!sets) sets = enumerate(blocks, limits.states, true);
  }
  if (!sets) {
    done_counts_ = prefixes_of(leader);
    uses_antichains_ = false;
    states_ = static_cast<int>(done_counts_.size());
    return;
  }
  sort_by_time(*sets, p);
  states_ = static_cast<int>(sets->size());
  for (const auto& set : *sets)
    done_counts_.push_back(count(set));
  if (std::equal(sets->begin(), sets->end(), done_counts_.begin(), is_prefix)) return;
  words_ = sets->front().size();
  for (const auto& set : *sets)
    done_.insert(done_.end(), set.begin(), set.end());
  find_ancestors();
}

void layer_graph::find_ancestors() {
  ancestor_words_ = (static_cast<std::size_t>(states_) + 63) / 64;
  ancestors_.assign(static_cast<std::size_t>(states_) * ancestor_words_, 0);
  for (int to = 1; to < states_; ++to)
    for (int from = 0; from < to; ++from)
      if (is_subset(&done_[static_cast<std::size_t>(from) * words_], &done_[static_cast<std::size_t>(to) * words_],
                    words_))
        ancestors_[ancestor_word(to, from)] |= std::uint64_t{1} << (from % 64);
}

std::vector<int> layer_graph::layers_between(int from, int to) const {
  std::vector<int> layers;
  for (int i = 0; i < layers_; ++i)
    if (is_done(to, i) && !is_done(from, i)) layers.push_back(i);
  return layers;
}

std::vector<int> layer_graph::order_of(const std::vector<int>& path) const {
  std::vector<int> order;
  for (std::size_t i = 1; i < path.size(); ++i) {
    const auto layers = layers_between(path[i - 1], path[i]);
    order.insert(order.end(), layers.begin(), layers.end());
  }
  return order;
}

bool layer_graph::keeps_profile_order(const std::vector<int>& path) const {
  const auto order = order_of(path);
  return std::is_sorted(order.begin(), order.end());
}

int layer_graph::state_after(const std::vector<int>& order, std::size_t length) const {
  if (length > order.size()) return -1;
  std::vector<bool> wanted(static_cast<std::size_t>(layers_));
  for (std::size_t i = 0; i < length; ++i) {
    if (order[i] < 0 || order[i] >= layers_) return -1;
    wanted[static_cast<std::size_t>(order[i])] = true;
  }
  for (int s = 0; s < states_; ++s) {
    int i = 0;
    while (i < layers_ && is_done(s, i) == wanted[static_cast<std::size_t>(i)])
      ++i;
    if (i == layers_) return s;
  }
  return -1;
}

} // namespace penstock::planner
