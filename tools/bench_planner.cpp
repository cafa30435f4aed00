// How long the planner's searches and its simulator take, on one core: `bench_planner [GNMT-16's graph.txt]`.
#include "planner/machine.hpp"
#include "planner/search/flat_search.hpp"
#include "planner/search/hierarchical_search.hpp"
#include "planner/search/two_buffer_search.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace penstock::planner;

// Of this thread: what a search costs even while others use the machine.
double processor_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void report(const char* what, double limit_seconds, int repeats, const std::function<std::string()>& run) {
  std::vector<double> seconds;
  std::string result;
  for (int i = 0; i < repeats; ++i) {
    const auto start = processor_seconds();
    result = run();
    seconds.push_back(processor_seconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%-44s %10.1f ms   limit %8.0f ms   %s\n", what, 1e3 * seconds[seconds.size() / 2], 1e3 * limit_seconds,
              result.c_str());
  std::fflush(stdout);
}

std::string first_of(const std::vector<candidate>& found) {
  if (found.empty()) return "nothing found";
  char text[100];
  std::snprintf(text, sizeof text, "%zu found, best %.4g s, stages: %zu", found.size(), found[0].seconds,
                found[0].stages.size());
  return text;
}

void add_layer(profile& p, std::vector<int> inputs, std::mt19937& random) {
  const auto i = p.layers.size();
  p.layers.push_back({.name = "layer" + std::to_string(i),
                      .kind = "layer",
                      .inputs = std::move(inputs),
                      .weight_bytes = 3e6 * static_cast<double>(1 + random() % 40)});
  const auto forward = 1e-4 * static_cast<double>(10 + random() % 40);
  const auto output = 1e5 * static_cast<double>(1 + random() % 40);
  p.measurements[0].layers.push_back(
      {.forward_seconds = forward, .backward_seconds = 2 * forward, .output_bytes = output, .kept_bytes = output});
}

profile chain(int layers) {
  profile p{.model = "chain", .measurements = {{}}};
  std::mt19937 random(1);
  for (int i = 0; i < layers; ++i)
    add_layer(p, {i - 1}, random);
  return p;
}

// Two chains that meet in the end: 38 x 38 + 2 states, about as many as GNMT-16.
profile like_gnmt() {
  constexpr int length = 37;
  profile p{.model = "two-chains", .measurements = {{}}};
  std::mt19937 random(1);
  add_layer(p, {-1}, random);
  for (int i = 0; i < 2 * length; ++i)
    add_layer(p, {i < 2 ? 0 : i - 1}, random);
  add_layer(p, {2 * length - 1, 2 * length}, random);
  return p;
}

profile read_graph(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument(std::string("cannot read '") + path + "'");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return read_profile(text, path);
}

void bench_flat(const profile& p, int devices, const char* what, double limit_seconds) {
  const auto on = flat_cluster(devices, 1.25e9);
  const search_request request;
  report(what, limit_seconds, 5, [&] {
    const layer_graph graph(p);
    return std::to_string(graph.states()) + " states, " + first_of(search_flat(stage_cost(p, graph, on, request)));
  });
}

void bench_hierarchical() {
  const auto p = chain(500);
  const cluster on{.devices = {{.name = "device", .count = 4096}},
                   .levels = {{.group = 16, .bandwidth_bytes_per_s = 150e9, .latency_s = 2e-6},
                              {.group = 16, .bandwidth_bytes_per_s = 25e9, .latency_s = 5e-6},
                              {.group = 16, .bandwidth_bytes_per_s = 12.5e9, .latency_s = 1e-5}}};
  const search_request request;
  report("500-layer chain, 16 x 16 x 16 devices", 15, 3, [&] {
    const layer_graph graph(p);
    return first_of(search_hierarchical(stage_cost(p, graph, on, request)));
  });
}

void bench_two_buffer() {
  const auto p = chain(400);
  const auto on = flat_cluster(64, 12.5e9);
  const search_request request{.charge = update_charge::every_minibatch, .microbatches = 64};
  report("2BW: 400-layer chain, 64 devices", 1, 5, [&] {
    const layer_graph graph(p);
    return first_of(search_two_buffer(stage_cost(p, graph, on, request)));
  });
}

void bench_simulator() {
  constexpr int stages = 32, microbatches = 1024;
  const auto s =
      resolve_schedule({.name = "1f1b", .replicas = std::vector<int>(stages, 1), .microbatches = microbatches});
  machine m;
  for (int i = 0; i < stages; ++i)
    m.stages.push_back({.devices = {i}, .update_seconds = 0.1, .output_bytes = {1e6}, .weight_bytes = 1e6});
  m.links = {{.group = stages, .bytes_per_second = 1e9, .latency_s = 1e-5}};
  report("simulate 32 stages x 1,024 micro-batches", 0.05, 5, [&] {
    const auto run = run_machine(s, m, {.keep_spans = false});
    char text[60];
    std::snprintf(text, sizeof text, "bubble %.2f %%", 100 * run.bubble());
    return std::string(text);
  });
}

} // namespace

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: bench_planner [GRAPH.txt]\n");
    return 2;
  }
  try {
    const auto branching = argc == 2 ? read_graph(argv[1]) : like_gnmt();
    const auto what = branching.model + ", 16 flat devices";
    bench_flat(branching, 16, what.c_str(), 1);
    bench_flat(chain(400), 32, "400-layer chain, 32 flat devices", 0.05);
    bench_hierarchical();
    bench_two_buffer();
    bench_simulator();
    return 0;
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "bench_planner: %s\n", e.what());
    return 2;
  }
}
