// Probes one link after the other, so that none disturbs another.
#include "actors/profiler/measure_ranks.hpp"

#include "actors/profiler/measure_machine.hpp"
#include "actors/ranks/channels.hpp"
#include "kernels/usable_cores.hpp"
#include "transport/link_probe.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace penstock::actors {

namespace {

using nlohmann::json;
using transport::measured_link;

// What one rank knows of itself.
struct rank_facts {
  std::string host;
  int cores = 1;
  double memory_bytes = 0; // of its host
};

std::vector<rank_facts> gather_facts(const job& ranks) {
  const auto& me = ranks.control.members()[static_cast<std::size_t>(ranks.rank())];
  const json mine{{"host", me.host_identity}, {"cores", usable_cores()}, {"memory", available_memory_bytes()}};
  std::vector<rank_facts> all;
  for (const auto& text : ranks.control.all_gather("facts of ranks", mine.dump(), ranks.patience)) {
    const auto j = json::parse(text);
    all.push_back({j.at("host"), j.at("cores"), j.at("memory")});
  }
  return all;
}

// Ranks of a host, in the order of the first; consecutive ranks, or everything is one level.
std::vector<std::vector<int>> hosts_of(const std::vector<rank_facts>& facts) {
  std::vector<std::vector<int>> hosts;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    const bool same = r > 0 && facts[r].host == facts[r - 1].host;
    if (!same) hosts.emplace_back();
    hosts.back().push_back(static_cast<int>(r));
  }
  return hosts;
}

bool are_equal(const std::vector<std::vector<int>>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [&](const auto& h) { return h.size() == hosts.front().size(); });
}

measured_link slower(const measured_link& a, const measured_link& b) {
  return {std::max(a.latency_s, b.latency_s), std::min(a.bandwidth_bytes_per_s, b.bandwidth_bytes_per_s)};
}

class prober {
public:
  prober(const job& ranks, const std::function<void(const std::string&)>& say)
      : ranks_(ranks), say_(say), probe_(ranks.data, probe_channel) {}

  /// All ranks call it with the same pair; all get the result.
  measured_link measure(int a, int b) {
    json mine;
    if (ranks_.rank() == a) {
      const auto link = probe_.measure(b, std::chrono::minutes(2));
      mine = {link.latency_s, link.bandwidth_bytes_per_s};
    }
    const auto name = "link " + std::to_string(a) + "-" + std::to_string(b);
    const auto all = ranks_.control.all_gather(name, mine.dump(), ranks_.patience);
    const auto j = json::parse(all[static_cast<std::size_t>(a)]);
    const measured_link link{j.at(0), j.at(1)};
    char line[160];
    std::snprintf(line, sizeof line, "link between ranks %d and %d: %.0f us, %.3g MB/s", a, b, 1e6 * link.latency_s,
                  link.bandwidth_bytes_per_s / 1e6);
    if (ranks_.rank() == 0) say_(line);
    return link;
  }

private:
  const job& ranks_;
  const std::function<void(const std::string&)>& say_;
  transport::link_probe probe_;
};

planner::link_level level_of(std::size_t group, const measured_link& link) {
  planner::link_level level;
  level.group = static_cast<int>(group);
  level.bandwidth_bytes_per_s = link.bandwidth_bytes_per_s;
  level.latency_s = link.latency_s;
  return level;
}

} // namespace

planner::cluster measure_ranks(const job& ranks, const std::function<void(const std::string&)>& say) {
  const auto facts = gather_facts(ranks);
  const auto hosts = hosts_of(facts);
  prober links(ranks, say);
  std::optional<measured_link> inside;
  std::optional<measured_link> between;
  for (const auto& host : hosts)
    for (std::size_t i = 1; i < host.size(); ++i) {
      const auto link = links.measure(host[i - 1], host[i]);
      inside = inside ? slower(*inside, link) : link;
    }
  for (std::size_t h = 1; h < hosts.size(); ++h) {
    const auto link = links.measure(hosts[h - 1].front(), hosts[h].front());
    between = between ? slower(*between, link) : link;
  }
  ranks.control.all_gather("links measured", "", ranks.patience); // nobody stops answering before all are done
  planner::cluster c;
  c.name = "the " + std::to_string(ranks.size()) + " processes of a job";
  planner::device_type cpu;
  cpu.name = "cpu";
  cpu.count = ranks.size();
  cpu.threads = facts.front().cores;
  cpu.memory_bytes = facts.front().memory_bytes / static_cast<double>(hosts.front().size());
  for (const auto& f : facts)
    cpu.threads = std::min(cpu.threads, f.cores);
  c.devices.push_back(std::move(cpu));
  if (inside && between && are_equal(hosts)) {
    c.levels.push_back(level_of(hosts.front().size(), *inside));
    c.levels.push_back(level_of(hosts.size(), *between));
  } else {
    const auto slowest = inside && between ? slower(*inside, *between) : inside ? *inside : *between;
    c.levels.push_back(level_of(static_cast<std::size_t>(ranks.size()), slowest));
  }
  planner::check_cluster(c);
  return c;
}

} // namespace penstock::actors
