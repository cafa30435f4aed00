// The links of a virtual machine: who shares a channel with whom, and when each is taken.
#pragma once

#include "planner/link_channel.hpp"
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

  /// Channels that are held together; both the same where there is one, none where nothing is sent.
  struct way {
    link_channel* from = nullptr;
    link_channel* to = nullptr;
  };
  /// How a set of devices reduces, at the level that takes longest for `bytes` of those that join any two of them.
  struct group_route {
    int members = 1;             ///< different devices
    double seconds_per_byte = 0; ///< that the channels are held, per byte reduced
    double sum_per_byte = 0;     ///< of one device that sums all the others' bytes
    double latency = 0;          ///< of the whole all-reduce
    bool by_reference = false;   ///< all in one process
    std::vector<way> flows;      ///< each goes bucket by bucket by itself
  };
  group_route route_among(const std::vector<int>& devices, double bytes);
  /// A flow takes its channels for `bytes`, a part of what is reduced; the arrival leaves the latency out.
  static passage reduce(const group_route& route, std::size_t flow, double bytes, double ready);
  /// Seconds for which the channel that was taken most was taken.
  double most_taken() const;

private:
  struct level_state {
    machine_link link;
    int span = 1;                                      ///< devices in a component
    std::vector<link_channel> out, in;                 ///< `in` is empty where one serves both directions
    std::map<std::pair<int, int>, link_channel> wires; ///< point to point, those used so far
  };
  const level_state& at(int l) const { return levels_[static_cast<std::size_t>(l)]; }
  static link_channel& channel(level_state& l, int device, bool outward);
  static link_channel& wire(level_state& l, int from, int to);
  static std::vector<way> flows_among(level_state& l, const std::vector<int>& devices);
  static double reduce_seconds_per_byte(const level_state& l, const std::vector<int>& devices);

  std::vector<level_state> levels_;
};

} // namespace penstock::planner
