// Ten steps of a narrow sequence model beside PyTorch's in float64: losses, gradients by name, weights. What is fed is
// drawn from (seed, name), as the script that made the fixture draws it.
#pragma once

#include "kernels/initialise.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/segment.hpp"
#include "kernels/stream.hpp"
#include "tests/parity/sketches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

namespace penstock::parity {

/// Integers of all samples of a run, row-major, by the name of the input that they are for.
using columns = std::map<std::string, std::vector<std::int64_t>>;
/// Numbers, likewise.
using number_columns = std::map<std::string, std::vector<float>>;

/// `below`: one for each of the numbers, or one for all.
inline std::vector<std::int64_t> whole(const char* name, std::int64_t count, const std::vector<std::int64_t>& below,
                                       std::int64_t first = 0) {
  const word_stream words(name);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bound = below[below.size() == 1 ? 0 : static_cast<std::size_t>(i)];
    out.push_back(first + static_cast<std::int64_t>(words[i] % static_cast<std::uint64_t>(bound)));
  }
  return out;
}

/// Sets what lies behind the first `inside` of a row.
inline void pad(std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& inside, std::int64_t row,
                std::int64_t by) {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(rows.size()); ++i)
    if (i % row >= inside[static_cast<std::size_t>(i / row)]) rows[static_cast<std::size_t>(i)] = by;
}

struct recipe {
  std::int64_t steps = 10;
  std::int64_t batch = 6;
  std::int64_t microbatches = 2; ///< the first ones have a sample more where it does not come out even
  optimizer_options optimizer;
  float rate = 1e-3F;
  double loss_tolerance = 1e-5;
  /// Counts and extents of a minibatch; samples are filled in.
  std::function<microbatch_info(std::int64_t step)> facts;
  /// What errors are measured by where it is not the fixture's norm: for a gradient that is 0 but for rounding.
  std::function<double(const std::string& parameter, double norm)> measure = [](const auto&, double norm) {
    return norm;
  };
};

class sequence_parity {
public:
  sequence_parity(std::shared_ptr<const model> network, columns data, const std::filesystem::path& fixture, recipe how,
                  number_columns numbers = {})
      : network_(std::move(network)), data_(std::move(data)), numbers_(std::move(numbers)),
        fixture_(read_safetensors(fixture, pool_).tensors), how_(std::move(how)),
        device_(open_device({device_kind::cpu, 0})) {}

  /// `reference`: plain loops instead of the device's library.
  void train(bool reference) {
    const auto worker = device_->create_stream({.name = "parity", .threads = 1, .reference = reference});
    worker->run([&](backend& ops) { train(ops); });
  }

private:
  template <class T>
  void copy_rows(const std::vector<T>& all, std::int64_t first, T* to, const shape& dims) const {
    const auto stored = static_cast<std::int64_t>(all.size()) / (how_.steps * how_.batch);
    const auto row = element_count(dims) / dims[0];
    for (std::int64_t s = 0; s < dims[0]; ++s)
      std::copy_n(all.begin() + (first + s) * stored, row, to + s * row);
  }

  // As wide as the minibatch is.
  tensor rows_of(backend& ops, value_id id, std::int64_t first, const microbatch_info& info) {
    const auto spec = network_->spec(id, info);
    const auto& name = network_->value(id).name;
    auto t = ops.allocate(spec.type, spec.dims, memory_use::scratch);
    if (spec.type == dtype::f32)
      copy_rows(numbers_.at(name), first, t.data<float>(), spec.dims);
    else
      copy_rows(data_.at(name), first, t.data<std::int64_t>(), spec.dims);
    return t;
  }

  // Adds the minibatch's gradients; its loss.
  double pass(backend& ops, const segment& range, std::int64_t step, const std::vector<tensor>& weights,
              std::vector<tensor>& gradients) {
    auto info = how_.facts(step);
    double loss = 0;
    std::int64_t first = step * how_.batch;
    for (std::int64_t m = 0; m < how_.microbatches; ++m, first += info.samples) {
      info.samples = how_.batch / how_.microbatches + (m < how_.batch % how_.microbatches ? 1 : 0);
      const segment_call call{
          .seed = seed, .minibatch = step, .microbatch = static_cast<std::int32_t>(m), .info = info};
      std::vector<tensor> inputs;
      for (const auto id : range.fed())
        inputs.push_back(rows_of(ops, id, first, info));
      segment_activations kept;
      segment_losses losses;
      range.forward(ops, call, inputs, weights, {}, &kept, &losses);
      for (std::size_t l = 0; l < losses.size(); ++l) {
        const auto& how = network_->losses()[l];
        loss += static_cast<double>(how.options.weight) * *losses[l].sums.data<double>() / info.counts.at(how.count);
      }
      range.backward(ops, call, std::vector<tensor>(range.outputs().size()), weights, std::move(kept), gradients,
                     std::move(losses));
    }
    for (std::size_t i = gradients.size(); i-- > 0;) // two uses of one tensor at most
      if (range.is_repeat(i))
        ops.get<elementwise_ops>().accumulate(gradients[range.parameters()[i].first_use], gradients[i]);
    return loss;
  }

  void train(backend& ops) {
    const segment range(network_, 0, static_cast<int>(network_->layers().size()));
    const auto rule = make_optimizer(how_.optimizer);
    const auto drawn = initial_weights(*network_, seed, *device_->host_memory());
    const auto formats = range.parameter_formats(ops);
    const auto& parameters = range.parameters();
    std::vector<tensor> weights;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      weights.push_back(range.is_repeat(i)
                            ? weights[parameters[i].first_use]
                            : ops.reorder(drawn.at(parameters[i].name), formats[i], memory_use::weights));
    std::vector<optimizer_state> states(weights.size());
    for (std::int64_t step = 0; step < how_.steps; ++step) {
      std::vector<tensor> gradients(weights.size());
      const double loss = pass(ops, range, step, weights, gradients);
      EXPECT_NEAR(loss, fixture_.at("losses").data<float>()[step], how_.loss_tolerance) << "step " << step + 1;
      if (step == 0) expect_near(ops, "gradient:", parameters, gradients);
      const auto strange =
          ops.allocate_zeroed(dtype::i32, {static_cast<std::int64_t>(weights.size())}, memory_use::scratch);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        if (range.is_repeat(i)) continue; // it is stepped in place with the first use
        const auto& spec = parameters[i].spec;
        rule->step(ops, how_.rate * spec.rate, 1, !spec.norm_or_bias, weights[i], gradients[i], states[i], weights[i],
                   strange, static_cast<std::int64_t>(i));
      }
    }
    expect_near(ops, "final:", parameters, weights);
  }

  void expect_near(backend& ops, const std::string& kind, const std::vector<segment_parameter>& parameters,
                   const std::vector<tensor>& found) {
    std::size_t held = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (parameters[i].first_use != i) continue;
      const auto& name = parameters[i].name;
      ASSERT_TRUE(fixture_.contains(kind + name)) << name;
      const auto wanted = read_expectation(fixture_.at(kind + name));
      const double error = std::sqrt(squared_difference(name, ops.to_plain(found[i]), wanted));
      EXPECT_LE(error, sketch_slack * (3 * wanted.own_error * wanted.norm + 1e-5 * how_.measure(name, wanted.norm)))
          << kind << name;
      ++held;
    }
    EXPECT_EQ(held, static_cast<std::size_t>(std::count_if(fixture_.begin(), fixture_.end(), [&](const auto& entry) {
                return entry.first.starts_with(kind);
              })));
  }

  memory_pool pool_;
  std::shared_ptr<const model> network_;
  columns data_;
  number_columns numbers_;
  named_tensors fixture_;
  recipe how_;
  std::shared_ptr<device> device_;
};

} // namespace penstock::parity
