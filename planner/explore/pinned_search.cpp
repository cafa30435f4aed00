// Dynamic programming over stages whose cuts or replicas are given.
#include "planner/explore/pinned_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace penstock::planner {

namespace {

// Kept of each suffix beside those that are best in some term: near misses that the simulator may prefer.
constexpr std::size_t near_misses = 4;
constexpr int most_devices_counted_singly = 128;

class pinned_searcher {
public:
  pinned_searcher(const stage_cost& model, const fixed_shape& shape)
      : model_(model), shape_(shape), last_state_(model.graph().states() - 1),
        stages_(shape.replicas.empty() ? shape.cuts.size() + 1 : shape.replicas.size()),
        is_large_(model.on().device_count() > most_devices_counted_singly) {
    const auto& types = model.on().devices;
    int first = 0;
    for (const auto& type : types) {
      first_device_.push_back(first);
      first += type.count;
    }
  }

  std::vector<candidate> run() {
    std::vector<int> counts;
    for (const auto& type : model_.on().devices)
      counts.push_back(type.count);
    std::vector<candidate> found;
    for (const auto& used : uses(counts)) {
      const auto& ways = solve({0, 0, used});
      for (std::size_t i = 0; i < ways.size(); ++i) {
        auto c = candidate_of({0, 0, used}, i);
        if (model_.complete(c)) found.push_back(std::move(c));
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const candidate& a, const candidate& b) { return a.seconds < b.seconds; });
    if (found.size() > model_.request().top) found.resize(model_.request().top);
    return found;
  }

private:
  /// Stages `stage` and later, beginning at `state`, on exactly `used` devices of each type.
  struct suffix {
    std::size_t stage = 0;
    int state = 0;
    std::vector<int> used;
    auto operator<=>(const suffix&) const = default;
  };
  /// One way to do a suffix: its first stage and one way of the rest.
  struct way {
    cost_terms terms;
    int to_state = 0;
    int type = 0;
    int replicas = 0;
    std::size_t rest = 0;
  };

  /// Every number of devices that may be used in all.
  std::vector<std::vector<int>> uses(const std::vector<int>& counts) const {
    const auto fixed = std::accumulate(shape_.replicas.begin(), shape_.replicas.end(), 0);
    const auto all = std::accumulate(counts.begin(), counts.end(), 0);
    std::vector<std::vector<int>> result;
    std::vector<int> used(counts.size(), 0);
    for (bool more = true; more;) {
      const auto sum = std::accumulate(used.begin(), used.end(), 0);
      const bool wanted =
          shape_.replicas.empty() ? sum >= static_cast<int>(stages_) && (!is_large_ || sum == all) : sum == fixed;
      if (wanted) result.push_back(used);
      std::size_t t = 0;
      while (t < used.size() && used[t] == counts[t])
        used[t++] = 0;
      more = t < used.size();
      if (more) ++used[t];
    }
    return result;
  }

  std::vector<int> next_states(const suffix& at) const {
    if (at.stage + 1 == stages_) return {last_state_};
    if (!shape_.cuts.empty()) return {shape_.cuts[at.stage]};
    std::vector<int> states(static_cast<std::size_t>(last_state_ - at.state - 1));
    std::iota(states.begin(), states.end(), at.state + 1);
    return states;
  }

  /// The devices of a suffix's first stage, its type's last unused ones being first.
  std::vector<int> devices_of(const suffix& at, int type, int replicas) const {
    const auto t = static_cast<std::size_t>(type);
    std::vector<int> devices(static_cast<std::size_t>(replicas));
    std::iota(devices.begin(), devices.end(), first_device_[t] + model_.on().devices[t].count - at.used[t]);
    return devices;
  }

  const std::vector<way>& solve(const suffix& at) {
    if (const auto known = ways_.find(at); known != ways_.end()) return known->second;
    std::vector<way> ways;
    const auto all_used = std::accumulate(at.used.begin(), at.used.end(), 0);
    for (int type = 0; type < static_cast<int>(at.used.size()); ++type) {
      const auto available = at.used[static_cast<std::size_t>(type)];
      const bool is_last = at.stage + 1 == stages_;
      if (!shape_.replicas.empty())
        add_ways(at, type, shape_.replicas[at.stage], all_used, ways);
      else if (is_last)
        add_ways(at, type, all_used, all_used, ways);
      else
        for (int replicas = 1; replicas <= available; replicas += stride(replicas))
          add_ways(at, type, replicas, all_used, ways);
    }
    prune(ways, at.stage == 0 ? model_.request().top : near_misses);
    return ways_.emplace(at, std::move(ways)).first->second;
  }

  /// On many devices one replica more or less no longer matters.
  int stride(int replicas) const { return is_large_ ? std::max(1, replicas / 8) : 1; }

  void add_ways(const suffix& at, int type, int replicas, int all_used, std::vector<way>& ways) {
    const auto downstream = all_used - replicas;
    if (replicas > at.used[static_cast<std::size_t>(type)]) return;
    if ((downstream == 0) != (at.stage + 1 == stages_)) return;
    const auto devices = devices_of(at, type, replicas);
    const auto ring = model_.ring(devices);
    const auto in_flight = model_.in_flight(replicas, downstream);
    if (!model_.admits(replicas, in_flight)) return;
    for (const auto to : next_states(at)) {
      if (!model_.graph().reaches(at.state, to)) continue;
      const auto load = model_.load(type, at.state, to, replicas);
      stage_options how;
      cost_terms own;
      if (!model_.decide(load, type, replicas, in_flight, ring, how, own)) continue;
      if (downstream == 0) {
        ways.push_back({own, to, type, replicas, 0});
        continue;
      }
      const auto rest = after(at, to, type, replicas);
      const auto& rest_ways = solve(rest);
      for (std::size_t i = 0; i < rest_ways.size(); ++i) {
        const auto& next = rest_ways[i];
        const auto link = model_.link(devices, devices_of(rest, next.type, next.replicas));
        const auto bytes = model_.loads(type).crossing_bytes(to);
        ways.push_back({own + model_.link(link, bytes) + next.terms, to, type, replicas, i});
      }
    }
  }

  static suffix after(const suffix& at, int to, int type, int replicas) {
    suffix rest{at.stage + 1, to, at.used};
    rest.used[static_cast<std::size_t>(type)] -= replicas;
    return rest;
  }

  /// Keeps the best `near` and every way that no other beats in all terms; the link before it tells apart who is first.
  static void prune(std::vector<way>& ways, std::size_t near) {
    std::stable_sort(ways.begin(), ways.end(), [](const way& a, const way& b) {
      return std::tuple(a.terms.seconds(), a.terms.sum, a.terms.most) <
             std::tuple(b.terms.seconds(), b.terms.sum, b.terms.most);
    });
    std::vector<way> kept;
    for (const auto& w : ways) {
      const bool beaten = std::any_of(kept.begin(), kept.end(), [&](const way& k) {
        return k.type == w.type && k.replicas == w.replicas && k.terms.sum <= w.terms.sum &&
               k.terms.most <= w.terms.most && k.terms.tail <= w.terms.tail;
      });
      if (!beaten || kept.size() < near) kept.push_back(w);
    }
    ways = std::move(kept);
  }

  candidate candidate_of(suffix at, std::size_t index) {
    candidate c;
    c.origin = "given";
    const auto used = at.used;
    while (true) {
      const auto w = solve(at)[index];
      auto devices = devices_of(at, w.type, w.replicas);
      const auto t = static_cast<std::size_t>(w.type);
      for (auto& device : devices)
        device -= model_.on().devices[t].count - used[t];
      c.stages.push_back({.from_state = at.state, .to_state = w.to_state, .devices = std::move(devices)});
      if (c.stages.size() == stages_) return c;
      at = after(at, w.to_state, w.type, w.replicas);
      index = w.rest;
    }
  }

  const stage_cost& model_;
  const fixed_shape& shape_;
  int last_state_;
  std::size_t stages_;
  bool is_large_;
  std::vector<int> first_device_; // of each type
  std::map<suffix, std::vector<way>> ways_;
};

} // namespace

std::vector<candidate> search_pinned(const stage_cost& model, const fixed_shape& shape) {
  return pinned_searcher(model, shape).run();
}

} // namespace penstock::planner
