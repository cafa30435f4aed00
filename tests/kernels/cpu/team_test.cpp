// The compute threads of a stream: as many as asked for, on the cores asked for.
#include "kernels/device.hpp"
#include "kernels/stream.hpp"

#include <gtest/gtest.h>

#include <omp.h>
#include <sched.h>

namespace penstock {
namespace {

TEST(ComputeTeam, HasTheThreadsAndCoresOfItsStream) {
  const auto machine = open_device({});
  for (const int threads : {1, 2, 3}) {
    const auto one = machine->create_stream({.name = "team", .threads = threads, .cores = {0}});
    int team = 0, strayed = 0;
    one->run([&](backend&) {
#pragma omp parallel reduction(+ : strayed)
      {
#pragma omp single
        team = omp_get_num_threads();
        cpu_set_t mask;
        sched_getaffinity(0, sizeof mask, &mask);
        strayed += CPU_COUNT(&mask) != 1 || !CPU_ISSET(0, &mask);
      }
    });
    EXPECT_EQ(team, threads);
    EXPECT_EQ(strayed, 0);
  }
}

TEST(ComputeTeam, OfOneStreamLeavesOthersAlone) {
  const auto machine = open_device({});
  const auto two = machine->create_stream({.name = "two", .threads = 2});
  const auto three = machine->create_stream({.name = "three", .threads = 3});
  int of_two = 0, of_three = 0;
  two->run([&](backend&) { of_two = omp_get_max_threads(); });
  three->run([&](backend&) { of_three = omp_get_max_threads(); });
  EXPECT_EQ(of_two, 2);
  EXPECT_EQ(of_three, 3);
}

} // namespace
} // namespace penstock
