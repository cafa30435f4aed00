// The links of a virtual machine: who shares a channel with whom, and when each is free.
#pragma once

#include "planner/machine.hpp"

#include <map>
#include <utility>
#include <vector>

namespace penstock::planner {

/// Channels are taken in the order of the calls, which must be the order of readiness. The rules are run_machine's.
class machine_links {
public:
  machine_links(const std::vector<machine_link>& links, int devices);

  /// The innermost level that joins both; -1 for a device with itself and where there are no links.
  int level_between(int a, int b) const;
  bool passes_references(int level) const { return level < 0 || at(level).link.by_reference; }

  struct passage {
    double begin = 0;   ///< the channels are held from here
    double arrival = 0; ///< a latency after they are free again
  };
  passage send(int from, int to, double bytes, double ready);

  /// How a set of devices reduces, at the level that takes longest for `bytes` of those that join any two of them.
  struct group_route {
    int members = 1;             ///< different devices
    double seconds_per_byte = 0; ///< that the channels are held, per byte reduced
    double sum_per_byte = 0;     ///< of one device that sums all the others' bytes
    double latency = 0;          ///< of the whole all-reduce
    bool by_reference = false;   ///< all in one process
    /// Channels out of one member and into the next. Flows of one list go bucket by bucket together.
    std::vector<std::vector<std::pair<double*, double*>>> flows;
  };
  group_route route_among(const std::vector<int>& devices, double bytes);
  /// Every flow of a list takes its channels for `bytes`, a part of what is reduced; the arrival, of the last one,
  /// leaves the latency out.
  static passage reduce(const group_route& route, std::size_t list, double bytes, double ready);

private:
  struct level_state {
    machine_link link;
    int span = 1;                ///< devices in a component
    std::vector<double> out, in; ///< when each channel is free; `in` is empty where one serves both directions
    std::map<std::pair<int, int>, double> wires; ///< point to point, those used so far
  };
  const level_state& at(int l) const { return levels_[static_cast<std::size_t>(l)]; }
  static double& channel(level_state& l, int device, bool outward);
  static double& wire(level_state& l, int from, int to);
  static std::vector<std::pair<double*, double*>> ring_flows(level_state& l, const std::vector<int>& devices);
  static double reduce_seconds_per_byte(const level_state& l, const std::vector<int>& devices);

  std::vector<level_state> levels_;
};

} // namespace penstock::planner
