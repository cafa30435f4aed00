// Enumerates the slots of a cluster with their rings and links.
#include "planner/search/flat_slots.hpp"

#include <algorithm>

namespace penstock::planner {

namespace {

/// Counts per type as one number, the first type's fastest.
class mixed_radix {
public:
  explicit mixed_radix(const cluster& c) {
    for (const auto& type : c.devices) {
      weights_.push_back(size_);
      counts_.push_back(type.count);
      size_ *= static_cast<std::size_t>(type.count) + 1;
    }
  }
  std::size_t size() const { return size_; }
  std::size_t weight(int type) const { return weights_[static_cast<std::size_t>(type)]; }
  int digit(std::size_t number, int type) const {
    const auto t = static_cast<std::size_t>(type);
    return static_cast<int>(number / weights_[t] % (static_cast<std::size_t>(counts_[t]) + 1));
  }
  int sum(std::size_t number) const {
    int total = 0;
    for (std::size_t t = 0; t < counts_.size(); ++t)
      total += digit(number, static_cast<int>(t));
    return total;
  }

private:
  std::vector<std::size_t> weights_;
  std::vector<int> counts_;
  std::size_t size_ = 1;
};

} // namespace

double flat_slots::count(const cluster& c, int most_replicas) {
  double used = 1;
  for (const auto& type : c.devices)
    used *= type.count + 1;
  double slots = 0;
  for (const auto& type : c.devices)
    slots += used * std::min(most_replicas, (type.count + 1) / 2);
  return slots;
}

flat_slots::flat_slots(const stage_cost& model, int most_replicas) {
  const auto& c = model.on();
  const mixed_radix radix(c);
  std::vector<std::vector<std::size_t>> by_used(radix.size());
  for (std::size_t used = 1; used < radix.size(); ++used) {
    int end = 0; // of the type's devices
    for (int type = 0; type < static_cast<int>(c.devices.size()); ++type) {
      end += c.devices[static_cast<std::size_t>(type)].count;
      const auto of_type = radix.digit(used, type);
      for (int replicas = 1; replicas <= std::min(of_type, most_replicas); ++replicas) {
        flat_slot slot{.type = type, .replicas = replicas, .used = used};
        slot.rest = used - static_cast<std::size_t>(replicas) * radix.weight(type);
        slot.downstream = radix.sum(slot.rest);
        slot.left = c.device_count() - slot.downstream - replicas;
        for (int r = 0; r < replicas; ++r)
          slot.devices.push_back(end - of_type + r);
        by_used[used].push_back(slots_.size());
        if (slot.left == 0 || !model.request().use_all_devices) firsts_.push_back(slots_.size());
        slots_.push_back(std::move(slot));
      }
    }
  }
  for (auto& slot : slots_) {
    const auto ring = model.ring(slot.devices);
    slot.ring = static_cast<std::size_t>(std::find(rings_.begin(), rings_.end(), ring) - rings_.begin());
    if (slot.ring == rings_.size()) rings_.push_back(ring);
    followers_.emplace_back();
    for (const auto next : by_used[slot.rest])
      followers_.back().push_back({next, model.link(slot.devices, slots_[next].devices)});
  }
}

} // namespace penstock::planner
