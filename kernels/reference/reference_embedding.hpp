// Rows by number, in plain loops.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/ops/embedding_ops.hpp"

namespace penstock {

class reference_embedding final : public embedding_ops {
public:
  /// `memory`: whose tensors these are.
  explicit reference_embedding(backend& memory) : memory_(memory) {}

  tensor find_outside(const tensor& indices, std::int64_t below) override;
  tensor embed(const tensor& table, const tensor& ids, const row_dropout& drop) override;
  tensor embed_backward(const shape& table, const tensor& ids, const row_dropout& drop, const tensor& dy,
                        std::int64_t padding) override;
  tensor add_rows(tensor x, const tensor& table) override;
  tensor prepend_row(const tensor& x, const tensor& row) override;
  tensor sum_rows(const tensor& dy, const shape& table) override;
  tensor gather_rows(const tensor& x, const tensor& positions) override;
  tensor gather_rows_backward(const shape& x, const tensor& positions, const tensor& dy) override;

private:
  backend& memory_;
};

} // namespace penstock
