// One direction of a long short-term memory.
#include "kernels/layers/lstm.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"

namespace penstock::layers {

namespace {

class lstm_layer final : public vetted_layer {
public:
  lstm_layer(std::int64_t hidden, lstm_options options)
      : hidden_(hidden), options_(std::move(options)), args_{options_.gates, options_.reverse} {
    expect_at_least(1, hidden, "lstm: hidden");
    if (options_.biases < 0 || options_.biases > 2)
      throw usage_error("lstm: biases is " + std::to_string(options_.biases) + ", 0, 1 or 2 is wanted");
    if (!(options_.weight_drop >= 0 && options_.weight_drop < 1))
      throw usage_error("lstm: weight_drop is " + number_text(options_.weight_drop) +
                        ", at least 0 and less than 1 is wanted");
    if (options_.reverse && !options_.lengths) throw usage_error("lstm: reverse needs lengths");
    if (options_.carried && (options_.state || options_.lengths))
      throw usage_error("lstm: carried goes with neither state nor lengths");
    if (options_.reverse && options_.continues) throw usage_error("lstm: continues is not for reverse");
  }

  std::string_view kind() const override { return "lstm"; }

  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override {
    if (inputs.size() != input_count())
      throw usage_error(std::to_string(inputs.size()) + (inputs.size() == 1 ? " input, " : " inputs, ") +
                        std::to_string(input_count()) + (input_count() == 1 ? " is wanted" : " are wanted"));
    expect_inputs(inputs.first(1), {sequences});
    const std::int64_t rows = inputs[0].dims[0], steps = inputs[0].dims[1];
    std::size_t next = 1;
    const auto expect = [&](const char* name, dtype type, const shape& dims) {
      const tensor_spec& found = inputs[next++];
      if (found.type != type || found.dims != dims)
        throw usage_error(std::string(name) + " is " + std::string(name_of(found.type)) + " " + to_string(found.dims) +
                          ", " + std::string(name_of(type)) + " " + to_string(dims) + " is wanted");
    };
    if (options_.lengths) expect("lengths", dtype::i64, {rows});
    if (options_.state) expect("h", dtype::f32, {rows, hidden_}), expect("c", dtype::f32, {rows, hidden_});
    if (options_.continues) expect("continues", dtype::f32, {rows, steps});
    std::vector<tensor_spec> outputs{{dtype::f32, {rows, steps, hidden_}}};
    if (options_.state) outputs.insert(outputs.end(), 2, {dtype::f32, {rows, hidden_}});
    return outputs;
  }

  std::vector<parameter_spec> parameters(std::span<const tensor_spec> inputs) const override {
    const initializer usual = default_uniform(hidden_);
    const initializer weight = options_.weight_init.value_or(usual);
    std::vector<parameter_spec> specs{{options_.names.weight_ih, {4 * hidden_, inputs[0].dims.at(2)}, weight, false},
                                      {options_.names.weight_hh, {4 * hidden_, hidden_}, weight, false}};
    if (options_.biases > 0)
      specs.push_back({options_.names.bias_ih, {4 * hidden_}, options_.bias_ih_init.value_or(usual), true});
    if (options_.biases > 1)
      specs.push_back({options_.names.bias_hh, {4 * hidden_}, options_.bias_hh_init.value_or(usual), true});
    return specs;
  }

  std::vector<state_spec> carried(std::span<const tensor_spec>) const override {
    if (!options_.carried) return {};
    return {{.name = "h", .dims = {hidden_}}, {.name = "c", .dims = {hidden_}}};
  }

  forward_result forward(run_context& context, std::span<tensor> inputs,
                         std::span<const tensor> weights) const override {
    if (options_.lengths) refuse_outside(context, inputs[1], inputs[0].dim(1) + 1, "length");
    const bool trains = context.mode == phase::training;
    std::vector<tensor> read(inputs.begin(), inputs.end());
    if (options_.carried) {
      read.resize(read_count()); // zeros where none came
      std::copy(context.carried.begin(), context.carried.end(),
                read.begin() + static_cast<std::ptrdiff_t>(input_count()));
    }
    auto made =
        context.ops.get<recurrent_ops>().lstm_forward(args_, named(read), named(context, weights, trains), trains);
    if (context.carried_out != nullptr) *context.carried_out = {made.h, made.c};
    forward_result result;
    result.outputs.push_back(made.y);
    if (options_.state) result.outputs.push_back(made.h), result.outputs.push_back(made.c);
    if (trains) {
      result.saved = std::move(read);
      result.saved.insert(result.saved.end(), {made.y, made.gates, made.cells});
    }
    return result;
  }

  backward_result backward(run_context& context, std::span<tensor> output_gradients, std::span<const tensor> weights,
                           std::span<const tensor> saved) const override {
    auto first = backward_input(context, output_gradients, weights, saved);
    backward_result result{std::move(first.input_gradients), {}};
    result.weight_gradients = context.need_weight_gradient
                                  ? backward_weight(context, weights, first.kept)
                                  : std::vector<tensor>(static_cast<std::size_t>(2 + options_.biases));
    return result;
  }

  backward_input_result backward_input(run_context& context, std::span<tensor> output_gradients,
                                       std::span<const tensor> weights, std::span<const tensor> saved) const override {
    const std::size_t read = read_count();
    const lstm_result made{.y = saved[read], .h = {}, .c = {}, .gates = saved[read + 1], .cells = saved[read + 2]};
    auto gradients = context.ops.get<recurrent_ops>().lstm_backward_input(
        args_, named(saved), named(context, weights, true), made, output_gradients[0], wants_gradient(context, 0));
    backward_input_result result;
    result.input_gradients.resize(input_count());
    result.input_gradients[0] = std::move(gradients.x);
    if (context.need_weight_gradient) {
      result.kept.assign(saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(read + 1));
      result.kept.push_back(std::move(gradients.gates));
    }
    return result;
  }

  std::vector<tensor> backward_weight(run_context& context, std::span<const tensor>,
                                      std::span<tensor> kept) const override {
    const std::size_t read = read_count();
    auto gradients = context.ops.get<recurrent_ops>().lstm_backward_weight(args_, named(kept), kept[read],
                                                                           kept[read + 1], options_.biases > 0);
    std::vector<tensor> result{std::move(gradients.input), dropped(context, std::move(gradients.hidden), true)};
    if (options_.biases > 1) result.push_back(context.ops.copy(gradients.bias, memory_use::gradients));
    if (options_.biases > 0) result.push_back(std::move(gradients.bias));
    return result;
  }

  double forward_flops(std::span<const tensor_spec> inputs) const override {
    const shape& x = inputs[0].dims;
    return 8.0 * static_cast<double>(x[0] * x[1] * hidden_) * static_cast<double>(x[2] + hidden_);
  }

private:
  std::size_t input_count() const {
    return 1U + (options_.lengths ? 1 : 0) + (options_.state ? 2 : 0) + (options_.continues ? 1 : 0);
  }

  std::size_t read_count() const { return input_count() + (options_.carried ? 2U : 0U); }

  // Of what a forward reads: its inputs, then what is carried.
  lstm_inputs named(std::span<const tensor> inputs) const {
    std::size_t next = 0;
    lstm_inputs result;
    result.x = inputs[next++];
    if (options_.lengths) result.lengths = inputs[next++];
    if (options_.state) result.h = inputs[next++], result.c = inputs[next++];
    if (options_.continues) result.continues = inputs[next++];
    if (options_.carried) result.h = inputs[next], result.c = inputs[next + 1];
    return result;
  }

  lstm_weights named(const run_context& context, std::span<const tensor> weights, bool trains) const {
    return {.input = weights[0],
            .hidden = dropped(context, weights[1], trains),
            .bias = options_.biases > 0 ? weights[2] : tensor{},
            .second_bias = options_.biases > 1 ? weights[3] : tensor{}};
  }

  // The mask of the minibatch: its micro-batches share it, as they share its update. The stored weight is never masked.
  tensor dropped(const run_context& context, tensor weight, bool trains) const {
    if (!trains || options_.weight_drop == 0) return weight;
    random_key key = context.random;
    key.microbatch = 0;
    return context.ops.get<elementwise_ops>().dropout(key, options_.weight_drop, std::move(weight));
  }

  std::int64_t hidden_;
  lstm_options options_;
  lstm_args args_;
};

} // namespace

layer_ptr lstm(std::int64_t hidden, lstm_options options) {
  return std::make_shared<lstm_layer>(hidden, std::move(options));
}

} // namespace penstock::layers
