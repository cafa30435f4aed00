// Times one sequence layer's forward and backward, and what it keeps in between; bench_recurrent.py puts PyTorch
// beside.
//
//   bench_recurrent THREADS ROUNDS LAYER ROWS STEPS FEATURES HIDDEN
//
// LAYER: lstm, bidirectional, attention (GNMT's: FEATURES keys), or self_attention (HIDDEN heads). Prints a line for
// each round: forward_ms backward_ms kept_bytes grown_bytes. Kept is neither input nor output; grown is by how much the
// program's memory at its largest exceeds what it had before: of the first round, what a call needs in all.
#include "kernels/device.hpp"
#include "kernels/layers/additive_attention.hpp"
#include "kernels/layers/attention.hpp"
#include "kernels/layers/bidirectional_lstm.hpp"
#include "kernels/layers/lstm.hpp"
#include "kernels/stream.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

using namespace penstock;

namespace {

// Processor time of the program: what others do on the machine hardly shows.
double milliseconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

// Of /proc/self/status, in bytes: "VmRSS:", or "VmHWM:", the most of it since the last reset.
double memory_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kilobytes = 0; word == field && status >> kilobytes) return 1024 * kilobytes;
  return 0;
}

void reset_most_memory() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

tensor values(backend& ops, const shape& dims, float scale) {
  tensor x = ops.allocate(dtype::f32, dims, memory_use::activations);
  for (std::int64_t i = 0; i < x.elements(); ++i)
    x.data<float>()[i] = scale * (static_cast<float>((i * 7919) % 1009) / 504.5F - 1.0F);
  return x;
}

tensor whole_lengths(backend& ops, std::int64_t rows, std::int64_t steps) {
  tensor lengths = ops.allocate(dtype::i64, {rows}, memory_use::activations);
  std::fill_n(lengths.data<std::int64_t>(), rows, steps);
  return lengths;
}

struct subject {
  layer_ptr op;
  std::vector<tensor> inputs;
};

subject subject_of(backend& ops, const std::string& name, std::int64_t rows, std::int64_t steps, std::int64_t features,
                   std::int64_t hidden) {
  if (name == "bidirectional")
    return {layers::bidirectional_lstm(hidden),
            {values(ops, {rows, steps, features}, 1), whole_lengths(ops, rows, steps)}};
  if (name == "attention")
    return {layers::additive_attention(hidden),
            {values(ops, {rows, steps, hidden}, 1), values(ops, {rows, features, hidden}, 1),
             whole_lengths(ops, rows, features)}};
  if (name == "self_attention")
    return {layers::attention(hidden),
            {values(ops, {rows, steps, features}, 1), values(ops, {rows, steps, features}, 1),
             values(ops, {rows, steps, features}, 1), whole_lengths(ops, rows, steps)}};
  return {layers::lstm(hidden), {values(ops, {rows, steps, features}, 1)}};
}

void time_rounds(backend& ops, const subject& timed, int rounds, bool prints) {
  std::vector<tensor_spec> specs;
  for (const auto& x : timed.inputs)
    specs.push_back({x.type(), x.dims()});
  std::vector<tensor> weights;
  std::size_t number = 0;
  for (const auto& p : timed.op->parameters(specs))
    weights.push_back(
        ops.reorder(values(ops, p.dims, 0.03F), timed.op->parameter_format(ops, number++, specs), memory_use::weights));
  const tensor dy = values(ops, timed.op->infer(specs)[0].dims, 1);
  run_context context{.ops = ops};
  for (int round = 0; round < rounds; ++round) {
    auto inputs = timed.inputs;
    reset_most_memory();
    const double before = memory_bytes("VmRSS:");
    const double start = milliseconds();
    auto forward = timed.op->forward(context, inputs, weights);
    const double between = milliseconds();
    std::vector<tensor> gradients{dy};
    timed.op->backward(context, gradients, weights, forward.saved);
    const double end = milliseconds();
    std::size_t kept = 0;
    for (const auto& x : forward.saved) {
      bool known = x.raw() == forward.outputs[0].raw();
      for (const auto& input : timed.inputs)
        known = known || x.raw() == input.raw();
      if (!known) kept += x.bytes();
    }
    if (prints)
      std::printf("%.3f %.3f %zu %.0f\n", between - start, end - between, kept, memory_bytes("VmHWM:") - before);
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(
        stderr,
        "bench_recurrent THREADS ROUNDS lstm|bidirectional|attention|self_attention ROWS STEPS FEATURES HIDDEN\n");
    return 2;
  }
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  const auto on = open_device({})->create_stream({.name = "bench", .threads = static_cast<int>(number(1))});
  on->run([&](backend& ops) {
    // Few rows and steps first: code is loaded, and its memory is not a call's.
    time_rounds(ops, subject_of(ops, argv[3], 1, 8, number(6), number(7)), 1, false);
    time_rounds(ops, subject_of(ops, argv[3], number(4), number(5), number(6), number(7)), static_cast<int>(number(2)),
                true);
  });
}
