// Rows by number.
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class embeddings final : public embedding_ops {
public:
  explicit embeddings(delayed_backend& device) : device_(device) {}

  tensor find_outside(const tensor& indices, std::int64_t below) override {
    tensor found = device_.allocate(dtype::f64, {2}, memory_use::scratch);
    return ask({indices}, found, [below](embedding_ops& loops, auto& in) { return loops.find_outside(in[0], below); });
  }

  tensor embed(const tensor& table, const tensor& ids, const row_dropout& drop) override {
    shape dims = ids.dims();
    dims.push_back(table.dim(1));
    return ask({table, ids}, device_.allocate_activation(dims),
               [drop](embedding_ops& loops, auto& in) { return loops.embed(in[0], in[1], drop); });
  }

  tensor embed_backward(const shape& table, const tensor& ids, const row_dropout& drop, const tensor& dy,
                        std::int64_t padding) override {
    return ask({ids, dy}, gradient(table), [=](embedding_ops& loops, auto& in) {
      return loops.embed_backward(table, in[0], drop, in[1], padding);
    });
  }

  tensor add_rows(tensor x, const tensor& table) override {
    return ask({x, table}, device_.in_place_of(x),
               [](embedding_ops& loops, auto& in) { return loops.add_rows(in[0], in[1]); });
  }

  tensor prepend_row(const tensor& x, const tensor& row) override {
    return ask({x, row}, device_.allocate_activation({x.dim(0), x.dim(1) + 1, x.dim(2)}),
               [](embedding_ops& loops, auto& in) { return loops.prepend_row(in[0], in[1]); });
  }

  tensor sum_rows(const tensor& dy, const shape& table) override {
    return ask({dy}, gradient(table), [table](embedding_ops& loops, auto& in) { return loops.sum_rows(in[0], table); });
  }

  tensor gather_rows(const tensor& x, const tensor& positions) override {
    return ask({x, positions}, device_.allocate_activation({x.dim(0), positions.dim(1), x.dim(2)}),
               [](embedding_ops& loops, auto& in) { return loops.gather_rows(in[0], in[1]); });
  }

  tensor gather_rows_backward(const shape& x, const tensor& positions, const tensor& dy) override {
    return ask({positions, dy}, gradient(x),
               [x](embedding_ops& loops, auto& in) { return loops.gather_rows_backward(x, in[0], in[1]); });
  }

private:
  tensor gradient(const shape& dims) { return device_.allocate(dtype::f32, dims, memory_use::gradients); }

  template <class Compute>
  tensor ask(const std::vector<tensor>& operands, tensor result, Compute compute) {
    device_.ask(operands, {result}, [compute](backend& loops, auto& in) {
      return std::vector<tensor>{compute(loops.get<embedding_ops>(), in)};
    });
    return result;
  }

  delayed_backend& device_;
};

} // namespace

std::shared_ptr<embedding_ops> delayed_embedding(delayed_backend& device) {
  return std::make_shared<embeddings>(device);
}

} // namespace penstock::testing
