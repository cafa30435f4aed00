// Times one recurrent layer's forward and backward, and what it keeps in between; bench_recurrent.py puts PyTorch
// beside.
//
//   bench_recurrent THREADS ROUNDS LAYER ROWS STEPS FEATURES HIDDEN
//
// LAYER: lstm, bidirectional, or attention (FEATURES keys). Prints a line for each round: forward_ms backward_ms
// kept_bytes, of which the input and the output are no part.
#include "kernels/device.hpp"
#include "kernels/layers/additive_attention.hpp"
#include "kernels/layers/bidirectional_lstm.hpp"
#include "kernels/layers/lstm.hpp"
#include "kernels/stream.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

using namespace penstock;

namespace {

// Processor time of the program: what others do on the machine hardly shows.
double milliseconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
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
  return {layers::lstm(hidden), {values(ops, {rows, steps, features}, 1)}};
}

void time_rounds(backend& ops, const subject& timed, int rounds) {
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
    std::printf("%.3f %.3f %zu\n", between - start, end - between, kept);
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "bench_recurrent THREADS ROUNDS lstm|bidirectional|attention ROWS STEPS FEATURES HIDDEN\n");
    return 2;
  }
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  const auto on = open_device({})->create_stream({.name = "bench", .threads = static_cast<int>(number(1))});
  on->run([&](backend& ops) {
    time_rounds(ops, subject_of(ops, argv[3], number(4), number(5), number(6), number(7)), static_cast<int>(number(2)));
  });
}
