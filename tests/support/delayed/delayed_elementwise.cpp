// Element-wise operations and moves of elements.
#include "kernels/check.hpp"
#include "tests/support/delayed/delayed_families.hpp"

#include <numeric>

namespace penstock::testing {

namespace {

class elementwise final : public elementwise_ops {
public:
  explicit elementwise(delayed_backend& device) : device_(device) {}

  void accumulate(tensor& into, const tensor& x) override {
    device_.ask({into, x}, {}, [](backend& loops, auto& in) {
      loops.get<elementwise_ops>().accumulate(in[0], in[1]);
      return std::vector<tensor>{};
    });
  }

  tensor add(tensor a, const tensor& b, bool relu) override {
    tensor y = device_.in_place_of(a);
    device_.ask({a, b}, {y}, [relu](backend& loops, auto& in) {
      return std::vector{loops.get<elementwise_ops>().add(in[0], in[1], relu)};
    });
    return y;
  }

  tensor scaled(const tensor& x, float factor) override {
    tensor y = device_.allocate(dtype::f32, x.dims(), memory_use::scratch);
    device_.ask({x}, {y}, [factor](backend& loops, auto& in) {
      return std::vector{loops.get<elementwise_ops>().scaled(in[0], factor)};
    });
    return y;
  }

  tensor find_nonfinite(const tensor& x) override {
    tensor found = device_.allocate(dtype::f64, {2}, memory_use::scratch);
    device_.ask({x}, {found}, [](backend& loops, auto& in) {
      return std::vector{loops.get<elementwise_ops>().find_nonfinite(in[0])};
    });
    return found;
  }

  tensor relu_forward(tensor x) override {
    tensor y = device_.in_place_of(x);
    device_.ask({x}, {y},
                [](backend& loops, auto& in) { return std::vector{loops.get<elementwise_ops>().relu_forward(in[0])}; });
    return y;
  }

  tensor relu_backward(const tensor& y, tensor dy) override {
    tensor dx = device_.in_place_of(dy);
    device_.ask({y, dy}, {dx}, [](backend& loops, auto& in) {
      return std::vector{loops.get<elementwise_ops>().relu_backward(in[0], in[1])};
    });
    return dx;
  }

  tensor dropout(const random_key& key, float p, tensor x) override {
    tensor y = device_.in_place_of(x);
    device_.ask({x}, {y}, [key, p](backend& loops, auto& in) {
      return std::vector{loops.get<elementwise_ops>().dropout(key, p, in[0])};
    });
    return y;
  }

  tensor concat(std::span<const tensor> parts) override {
    check(!parts.empty(), "concat: no parts");
    shape dims = parts[0].dims();
    dims.at(1) = std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                                 [](std::int64_t sum, const tensor& part) { return sum + part.dim(1); });
    tensor y = device_.allocate_activation(dims);
    device_.ask({parts.begin(), parts.end()}, {y},
                [](backend& loops, auto& in) { return std::vector{loops.get<elementwise_ops>().concat(in)}; });
    return y;
  }

  std::vector<tensor> split(const tensor& x, std::span<const std::int64_t> channels) override {
    std::vector<tensor> parts;
    for (const auto count : channels) {
      shape dims = x.dims();
      dims.at(1) = count;
      parts.push_back(device_.allocate_activation(std::move(dims)));
    }
    device_.ask({x}, parts, [counts = std::vector(channels.begin(), channels.end())](backend& loops, auto& in) {
      return loops.get<elementwise_ops>().split(in[0], counts);
    });
    return parts;
  }

private:
  delayed_backend& device_;
};

} // namespace

std::shared_ptr<elementwise_ops> delayed_elementwise(delayed_backend& device) {
  return std::make_shared<elementwise>(device);
}

} // namespace penstock::testing
