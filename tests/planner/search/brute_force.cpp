// Draws instances from a seed and walks all partitions.
#include "tests/planner/search/brute_force.hpp"

#include <algorithm>
#include <memory>
#include <string>

namespace penstock::planner::testing {

namespace {

class dice {
public:
  explicit dice(std::uint64_t seed) : engine_(seed) {}
  int whole(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<unsigned>(most - least + 1));
  }
  double real(double least, double most) {
    return least + (most - least) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }
  bool happens(double share) { return real(0, 1) < share; }

private:
  std::mt19937_64 engine_;
};

layer_cost random_cost(dice& d) {
  layer_cost c;
  if (d.happens(0.9)) c.forward_seconds = d.real(0.1, 2);
  if (d.happens(0.9)) c.backward_seconds = d.real(0.1, 4);
  c.accumulate_seconds = d.happens(0.3) ? d.real(0, 0.5) : 0;
  c.output_bytes = d.real(0, 3);
  c.kept_bytes = d.real(0, 4);
  c.workspace_bytes = d.happens(0.4) ? d.real(0, 5) : 0;
  return c;
}

measurement random_measurement(dice& d, std::size_t layers) {
  measurement m;
  for (std::size_t i = 0; i < layers; ++i) {
    m.layers.push_back(random_cost(d));
    m.update_seconds.push_back(d.real(0, 0.5));
  }
  return m;
}

profile random_profile(dice& d, const instance_limits& limits) {
  profile p;
  p.model = "random";
  p.input_bytes_per_sample = d.whole(0, 4);
  const int layers = d.whole(1, limits.layers);
  for (int i = 0; i < layers; ++i) {
    profile_layer l{.name = "l" + std::to_string(i), .kind = "x"};
    if (d.happens(0.8)) l.weight_bytes = d.real(0, 6);
    if (limits.is_chain || i == 0 || d.happens(0.6))
      l.inputs = {i - 1};
    else
      for (int n = d.whole(0, 2); n-- > 0;)
        if (const auto from = d.whole(std::max(-1, i - 4), i - 1);
            std::count(l.inputs.begin(), l.inputs.end(), from) == 0)
          l.inputs.push_back(from);
    l.fused_with_previous = i > 0 && d.happens(0.1);
    p.layers.push_back(std::move(l));
  }
  p.measurements = {random_measurement(d, p.layers.size())};
  return p;
}

cluster random_cluster(dice& d, const profile& p, int most_devices) {
  cluster c;
  const int inner = d.whole(1, 3);
  const int devices = d.happens(0.5) ? inner * d.whole(1, std::max(1, most_devices / inner)) : d.whole(1, most_devices);
  const auto level = [&](int group) {
    return link_level{.group = group,
                      .bandwidth_bytes_per_s = d.real(0.2, 8),
                      .latency_s = d.happens(0.5) ? d.real(0, 0.5) : 0,
                      .shared = d.happens(0.2),
                      .half_duplex = d.happens(0.2),
                      .by_reference = d.happens(0.2)};
  };
  if (devices % inner == 0 && inner > 1)
    c.levels = {level(inner), level(devices / inner)};
  else
    c.levels = {level(devices)};
  const int first = devices > 1 && d.happens(0.5) ? d.whole(1, devices - 1) : devices;
  c.devices = {{.name = "a", .count = first}};
  if (first < devices) c.devices.push_back({.name = "b", .count = devices - first, .speed = d.real(0.3, 3)});
  if (c.devices.size() > 1 && d.happens(0.3)) {
    auto own = p;
    own.measurements = {random_measurement(d, p.layers.size())};
    c.devices[1].own_profile = std::make_shared<const profile>(std::move(own));
  }
  for (auto& type : c.devices)
    if (d.happens(0.5)) type.memory_bytes = d.real(5, 25) * static_cast<double>(p.layers.size()) / devices + 10;
  return c;
}

search_request random_request(dice& d, int devices) {
  search_request r;
  r.charge = std::vector{update_charge::every_group, update_charge::every_minibatch,
                         update_charge::flush}[static_cast<std::size_t>(d.whole(0, 2))];
  if (r.charge != update_charge::every_group) r.microbatches = d.whole(1, 9);
  r.memory = {.optimizer_copies = d.whole(0, 2),
              .gradient_sets = d.whole(1, 2),
              .versions_follow_in_flight = r.charge == update_charge::every_group,
              .versions = d.whole(1, 2)};
  r.whole_minibatch_in_flight = r.charge == update_charge::flush && d.happens(0.3);
  r.allow_recompute = d.happens(0.5);
  r.use_all_devices = d.happens(0.6);
  if (d.happens(0.3)) r.stages = d.whole(1, std::max(1, devices));
  if (r.charge == update_charge::every_group && d.happens(0.5)) r.update_lag = 1;
  return r;
}

class walker {
public:
  walker(const stage_cost& model, const std::function<void(const candidate&)>& visit)
      : model_(model), visit_(visit), left_(model.on().devices.size()) {
    for (std::size_t t = 0; t < left_.size(); ++t)
      left_[t] = model.on().devices[t].count;
  }

  void walk(int state) {
    const auto final_state = model_.graph().states() - 1;
    if (state == final_state) {
      finish();
      return;
    }
    for (int to = state + 1; to <= final_state; ++to) {
      if (!model_.graph().reaches(state, to)) continue;
      for (std::size_t type = 0; type < left_.size(); ++type)
        for (int replicas = 1; replicas <= left_[type]; ++replicas) {
          left_[type] -= replicas;
          path_.push_back({state, to, type, replicas});
          walk(to);
          path_.pop_back();
          left_[type] += replicas;
        }
    }
  }

private:
  struct step {
    int from = 0, to = 0;
    std::size_t type = 0;
    int replicas = 0;
  };

  void finish() const {
    const auto& request = model_.request();
    if (request.stages > 0 && path_.size() != static_cast<std::size_t>(request.stages)) return;
    if (request.use_all_devices && std::any_of(left_.begin(), left_.end(), [](int n) { return n > 0; })) return;
    // The last devices of every type, in order; on one level, where it makes no difference, the first.
    const bool has_levels = model_.on().levels.size() > 1;
    std::vector<int> next;
    int begin = 0;
    for (std::size_t t = 0; t < left_.size(); ++t) {
      next.push_back(begin + (has_levels ? left_[t] : 0));
      begin += model_.on().devices[t].count;
    }
    candidate c;
    for (const auto& s : path_) {
      stage_choice stage{.from_state = s.from, .to_state = s.to};
      for (int r = 0; r < s.replicas; ++r)
        stage.devices.push_back(next[s.type]++);
      c.stages.push_back(std::move(stage));
    }
    model_.complete(c);
    visit_(c);
  }

  const stage_cost& model_;
  const std::function<void(const candidate&)>& visit_;
  std::vector<int> left_;
  std::vector<step> path_;
};

} // namespace

search_instance random_instance(std::uint64_t seed, const instance_limits& limits) {
  dice d(seed);
  search_instance made;
  made.model = random_profile(d, limits);
  const auto layers = static_cast<int>(made.model.layers.size());
  // The more layers, the fewer devices: the number of partitions explodes with both.
  const auto devices = limits.is_chain ? limits.devices : std::min(limits.devices, layers > 9 ? 4 : 6);
  made.on = random_cluster(d, made.model, devices);
  made.request = random_request(d, made.on.device_count());
  if (d.happens(0.1)) made.together = {{d.whole(0, layers - 1), d.whole(0, layers - 1)}};
  return made;
}

void for_each_partition(const stage_cost& model, const std::function<void(const candidate&)>& visit) {
  walker(model, visit).walk(0);
}

profile chain_profile(const std::vector<layer_cost>& costs, const std::vector<double>& weight_bytes) {
  profile p;
  p.model = "chain";
  for (std::size_t i = 0; i < costs.size(); ++i)
    p.layers.push_back({.name = "l" + std::to_string(i),
                        .kind = "x",
                        .inputs = {static_cast<int>(i) - 1},
                        .weight_bytes = i < weight_bytes.size() ? weight_bytes[i] : 0});
  p.measurements = {{.layers = costs}};
  return p;
}

} // namespace penstock::planner::testing
