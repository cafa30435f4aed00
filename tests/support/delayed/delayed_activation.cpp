// Smooth activations.
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class activations final : public activation_ops {
public:
  explicit activations(delayed_backend& device) : device_(device) {}

  tensor activate(activation_kind kind, tensor x) override {
    tensor y = device_.in_place_of(x);
    device_.ask({x}, {y}, [kind](backend& loops, auto& in) {
      return std::vector{loops.get<activation_ops>().activate(kind, in[0])};
    });
    return y;
  }

  tensor activate_backward(activation_kind kind, const tensor& kept, tensor dy) override {
    tensor dx = device_.in_place_of(dy);
    device_.ask({kept, dy}, {dx}, [kind](backend& loops, auto& in) {
      return std::vector{loops.get<activation_ops>().activate_backward(kind, in[0], in[1])};
    });
    return dx;
  }

  tensor softmax(tensor x) override {
    tensor y = device_.in_place_of(x);
    device_.ask({x}, {y},
                [](backend& loops, auto& in) { return std::vector{loops.get<activation_ops>().softmax(in[0])}; });
    return y;
  }

  tensor softmax_backward(const tensor& y, tensor dy) override {
    tensor dx = device_.in_place_of(dy);
    device_.ask({y, dy}, {dx}, [](backend& loops, auto& in) {
      return std::vector{loops.get<activation_ops>().softmax_backward(in[0], in[1])};
    });
    return dx;
  }

private:
  delayed_backend& device_;
};

} // namespace

std::shared_ptr<activation_ops> delayed_activation(delayed_backend& device) {
  return std::make_shared<activations>(device);
}

} // namespace penstock::testing
