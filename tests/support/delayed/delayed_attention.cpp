// Attention.
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class attention final : public attention_ops {
public:
  explicit attention(delayed_backend& device) : device_(device) {}

  attention_result attention_forward(const attention_args& args, std::span<const tensor> qkv,
                                     const tensor& lengths) override {
    const attention_geometry g(args, qkv);
    attention_result result{device_.allocate_activation({g.batch, g.queries, g.width}),
                            device_.allocate_activation({g.batch, g.heads, g.queries})};
    std::vector<tensor> operands(qkv.begin(), qkv.end());
    operands.push_back(lengths);
    device_.ask(operands, {result.y, result.log_sums}, [args](backend& loops, auto& in) {
      const std::span<const tensor> all(in);
      const auto made = loops.get<attention_ops>().attention_forward(args, all.first(all.size() - 1), all.back());
      return std::vector{made.y, made.log_sums};
    });
    return result;
  }

  std::vector<tensor> attention_backward(const attention_args& args, std::span<const tensor> qkv, const tensor& lengths,
                                         const tensor& log_sums, const tensor& dy) override {
    std::vector<tensor> operands{lengths, log_sums, dy}, gradients;
    operands.insert(operands.end(), qkv.begin(), qkv.end());
    for (const tensor& x : qkv)
      gradients.push_back(device_.allocate(dtype::f32, x.dims(), memory_use::gradients));
    device_.ask(operands, gradients, [args](backend& loops, auto& in) {
      return loops.get<attention_ops>().attention_backward(args, std::span<const tensor>(in).subspan(3), in[0], in[1],
                                                           in[2]);
    });
    return gradients;
  }

private:
  delayed_backend& device_;
};

} // namespace

std::shared_ptr<attention_ops> delayed_attention(delayed_backend& device) {
  return std::make_shared<attention>(device);
}

} // namespace penstock::testing
