// Moves of elements.
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class moves final : public arrangement_ops {
public:
  explicit moves(delayed_backend& device) : device_(device) {}

  tensor to_sequence(const tensor& images) override {
    const shape& d = images.dims();
    return ask(images, device_.allocate_activation({d.at(0), d.at(2) * d.at(3), d.at(1)}),
               [](arrangement_ops& loops, const tensor& x) { return loops.to_sequence(x); });
  }

  tensor to_images(const tensor& sequence, const shape& images) override {
    return ask(sequence, device_.allocate_activation(images),
               [images](arrangement_ops& loops, const tensor& x) { return loops.to_images(x, images); });
  }

  tensor transpose(const tensor& x, std::size_t one, std::size_t other) override {
    shape dims = x.dims();
    std::swap(dims.at(one), dims.at(other));
    return ask(x, device_.allocate(x.type(), dims, memory_use::activations),
               [=](arrangement_ops& loops, const tensor& in) { return loops.transpose(in, one, other); });
  }

  tensor slice(const tensor& x, std::size_t axis, std::int64_t begin, std::int64_t end) override {
    shape dims = x.dims();
    dims.at(axis) = end - begin;
    return ask(x, device_.allocate(x.type(), dims, memory_use::activations),
               [=](arrangement_ops& loops, const tensor& in) { return loops.slice(in, axis, begin, end); });
  }

  tensor widen(const tensor& part, const shape& whole, std::size_t axis, std::int64_t begin) override {
    return ask(part, device_.allocate(part.type(), whole, memory_use::gradients),
               [=](arrangement_ops& loops, const tensor& in) { return loops.widen(in, whole, axis, begin); });
  }

private:
  template <class Compute>
  tensor ask(const tensor& x, tensor result, Compute compute) {
    device_.ask({x}, {result}, [compute](backend& loops, auto& in) {
      return std::vector<tensor>{compute(loops.get<arrangement_ops>(), in[0])};
    });
    return result;
  }

  delayed_backend& device_;
};

} // namespace

std::shared_ptr<arrangement_ops> delayed_arrangement(delayed_backend& device) {
  return std::make_shared<moves>(device);
}

} // namespace penstock::testing
