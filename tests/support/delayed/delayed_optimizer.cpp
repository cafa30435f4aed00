// Optimizer steps: all in place.
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class optimizer_steps final : public optimizer_ops {
public:
  explicit optimizer_steps(delayed_backend& device) : device_(device) {}

  void sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum, tensor& next,
                const tensor& strange, std::int64_t index) override {
    device_.ask({weight, gradient, momentum, next, strange}, {}, [args, index](backend& loops, auto& in) {
      loops.get<optimizer_ops>().sgd_step(args, in[0], in[1], in[2], in[3], in[4], index);
      return std::vector<tensor>{};
    });
  }

  void adam_step(const adam_args& args, const tensor& weight, const tensor& gradient, tensor& first_moment,
                 tensor& second_moment, tensor& next, const tensor& strange, std::int64_t index) override {
    device_.ask({weight, gradient, first_moment, second_moment, next, strange}, {},
                [args, index](backend& loops, auto& in) {
                  loops.get<optimizer_ops>().adam_step(args, in[0], in[1], in[2], in[3], in[4], in[5], index);
                  return std::vector<tensor>{};
                });
  }

  void count_into_average(float share, const tensor& x, const tensor& average) override {
    device_.ask({x, average}, {}, [share](backend& loops, auto& in) {
      loops.get<optimizer_ops>().count_into_average(share, in[0], in[1]);
      return std::vector<tensor>{};
    });
  }

  void sum_of_squares(const tensor& x, const tensor& sums, std::int64_t index) override {
    device_.ask({x, sums}, {}, [index](backend& loops, auto& in) {
      loops.get<optimizer_ops>().sum_of_squares(in[0], in[1], index);
      return std::vector<tensor>{};
    });
  }

private:
  delayed_backend& device_;
};

} // namespace

std::shared_ptr<optimizer_ops> delayed_optimizer(delayed_backend& device) {
  return std::make_shared<optimizer_steps>(device);
}

} // namespace penstock::testing
