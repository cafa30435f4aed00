// One update of one parameter, by PyTorch's formulas (torch.optim.SGD with dampening 0, Adam, AdamW).
#include "kernels/reference/reference_optimizer.hpp"

#include <cmath>

namespace penstock {

void reference_optimizer::sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum,
                                   tensor& next, const tensor& strange, std::int64_t index) {
  const double rate = args.learning_rate, mu = args.momentum;
  bool finite = true;
  for (std::int64_t i = 0; i < weight.elements(); ++i) {
    const double w = weight.data<float>()[i];
    double step = static_cast<double>(gradient.data<float>()[i]) * args.gradient_scale + args.weight_decay * w;
    if (mu != 0) {
      const double velocity = mu * momentum.data<float>()[i] + step;
      momentum.data<float>()[i] = static_cast<float>(velocity);
      step = args.nesterov ? step + mu * velocity : velocity;
    }
    next.data<float>()[i] = static_cast<float>(w - rate * step);
    finite = finite && std::isfinite(next.data<float>()[i]);
  }
  strange.data<std::int32_t>()[index] = finite ? 0 : 1;
}

void reference_optimizer::adam_step(const adam_args& args, const tensor& weight, const tensor& gradient,
                                    tensor& first_moment, tensor& second_moment, tensor& next, const tensor& strange,
                                    std::int64_t index) {
  const double rate = args.learning_rate, beta1 = args.beta1, beta2 = args.beta2;
  const double correction1 = args.step > 0 ? 1 - std::pow(beta1, args.step) : 1;
  const double correction2 = args.step > 0 ? 1 - std::pow(beta2, args.step) : 1;
  bool finite = true;
  for (std::int64_t i = 0; i < weight.elements(); ++i) {
    const double w = weight.data<float>()[i];
    const double g = static_cast<double>(gradient.data<float>()[i]) * args.gradient_scale +
                     (args.decoupled ? 0 : args.weight_decay * w);
    const double decayed = args.decoupled ? w * (1 - rate * args.weight_decay) : w;
    const double m = beta1 * first_moment.data<float>()[i] + (1 - beta1) * g;
    const double v = beta2 * second_moment.data<float>()[i] + (1 - beta2) * g * g;
    first_moment.data<float>()[i] = static_cast<float>(m);
    second_moment.data<float>()[i] = static_cast<float>(v);
    const double deviation = std::sqrt(v / correction2) + args.epsilon;
    next.data<float>()[i] = static_cast<float>(decayed - rate * (m / correction1) / deviation);
    finite = finite && std::isfinite(next.data<float>()[i]);
  }
  strange.data<std::int32_t>()[index] = finite ? 0 : 1;
}

void reference_optimizer::count_into_average(float share, const tensor& x, const tensor& average) {
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double mean = average.data<float>()[i];
    average.data<float>()[i] = static_cast<float>(mean + share * (x.data<float>()[i] - mean));
  }
}

void reference_optimizer::sum_of_squares(const tensor& x, const tensor& sums, std::int64_t index) {
  double sum = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double value = x.data<float>()[i];
    sum += value * value;
  }
  sums.data<double>()[index] = sum;
}

} // namespace penstock
