// Where a stage of a flat partition may stand: which devices, and which stages may follow it.
#pragma once

#include "planner/search/stage_cost.hpp"

#include <cstddef>
#include <vector>

namespace penstock::planner {

/// A stage by its devices: the first of a suffix that takes the last devices of each type.
struct flat_slot {
  int type = 0;
  int replicas = 1;
  int downstream = 0;   ///< devices of later stages
  int left = 0;         ///< devices before it, for earlier stages
  std::size_t used = 0; ///< what the suffix takes of each type, as one number
  std::size_t rest = 0; ///< the same without this stage; 0: it is the last
  std::size_t ring = 0; ///< index of rings()
  std::vector<int> devices;
};

struct flat_follower {
  std::size_t slot = 0;
  link_cost link;
};

class flat_slots {
public:
  /// Slots of at most so many replicas.
  flat_slots(const stage_cost& model, int most_replicas);

  /// About how many there would be; it may be astronomical.
  static double count(const cluster& c, int most_replicas);

  std::size_t size() const { return slots_.size(); }
  const flat_slot& operator[](std::size_t slot) const { return slots_[slot]; }
  const std::vector<flat_follower>& followers(std::size_t slot) const { return followers_[slot]; }
  const ring_cost& ring(std::size_t slot) const { return rings_[slots_[slot].ring]; }
  std::size_t rings() const { return rings_.size(); }
  /// Slots that may hold a first stage: all devices used, or any where fewer may be.
  const std::vector<std::size_t>& firsts() const { return firsts_; }

private:
  std::vector<flat_slot> slots_; // followers come before
  std::vector<std::vector<flat_follower>> followers_;
  std::vector<ring_cost> rings_;
  std::vector<std::size_t> firsts_;
};

} // namespace penstock::planner
