// Shares of the machine by hwloc, binding by the system.
#include "transport/launch/cores.hpp"

#include "kernels/check.hpp"

#include <climits>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <hwloc.h>
#include <memory>
#include <sched.h>

namespace penstock::transport {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw error("cores of this machine: " + what + ": " + std::strerror(errno));
}

struct topology_closer {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using topology = std::unique_ptr<hwloc_topology, topology_closer>;

struct bitmap_closer {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using bitmap = std::unique_ptr<hwloc_bitmap_s, bitmap_closer>;

// What the system and its control groups let us use of this machine.
topology examine() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail("hwloc does not start");
  topology machine(raw);
  if (hwloc_topology_load(raw) != 0) fail("hwloc cannot examine it");
  return machine;
}

bitmap usable(hwloc_topology_t machine) {
  bitmap set(hwloc_bitmap_alloc());
  if (!set || hwloc_get_cpubind(machine, set.get(), HWLOC_CPUBIND_THREAD) != 0) fail("cannot ask for the binding");
  hwloc_bitmap_and(set.get(), set.get(), hwloc_topology_get_allowed_cpuset(machine));
  return set;
}

std::vector<int> numbers(hwloc_const_bitmap_t set) {
  std::vector<int> result;
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i))
    result.push_back(i);
  return result;
}

bool binds_ranks(const std::string& launcher) {
  return launcher == "Slurm" || launcher == "Open MPI" || launcher == "PMI";
}

} // namespace

std::vector<int> cores_of_rank(int local_rank, int local_size) {
  check(local_rank >= 0 && local_rank < local_size, "a local rank is below the local size");
  const auto machine = examine();
  const auto mine = usable(machine.get());
  if (hwloc_topology_restrict(machine.get(), mine.get(), 0) != 0) fail("cannot look at a part of it");
  // Down to whole cores: two ranks on one core's threads would slow each other.
  const int core_depth = hwloc_get_type_or_above_depth(machine.get(), HWLOC_OBJ_CORE);
  const int cores = static_cast<int>(hwloc_get_nbobjs_by_depth(machine.get(), static_cast<unsigned>(core_depth)));
  const int shares = std::min(local_size, std::max(cores, 1));
  std::vector<hwloc_bitmap_t> sets(static_cast<std::size_t>(shares));
  auto root = hwloc_get_root_obj(machine.get());
  if (hwloc_distrib(machine.get(), &root, 1, sets.data(), static_cast<unsigned>(shares), core_depth, 0) != 0)
    fail("cannot divide it");
  const auto result = numbers(sets[static_cast<std::size_t>(local_rank % shares)]);
  for (auto* set : sets)
    hwloc_bitmap_free(set);
  check(!result.empty(), "every rank has a core");
  return result;
}

std::vector<int> cores_of_rank(const launch& where) {
  if (binds_ranks(where.source)) {
    const auto machine = examine();
    const auto mine = usable(machine.get());
    if (!hwloc_bitmap_isequal(mine.get(), hwloc_topology_get_allowed_cpuset(machine.get()))) return numbers(mine.get());
  }
  return cores_of_rank(where.local_rank, where.local_size);
}

void bind_to(const std::vector<int>& cores) {
  check(!cores.empty(), "a rank is bound to at least one core");
  const auto most = static_cast<std::size_t>(*std::max_element(cores.begin(), cores.end())) + 1;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most), [](cpu_set_t* s) { CPU_FREE(s); });
  if (!set) fail("no memory for a set of them");
  const auto bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, set.get());
  for (const int core : cores)
    CPU_SET_S(static_cast<std::size_t>(core), bytes, set.get());
  if (::sched_setaffinity(0, bytes, set.get()) != 0)
    fail("cannot bind to " + std::to_string(cores.size()) + " of them");
}

} // namespace penstock::transport
