// The family of attention by scaled dot products.
#pragma once

#include "kernels/random_key.hpp"
#include "kernels/tensor.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace penstock {

struct attention_args {
  std::int64_t heads = 1;
  float scale = 1;     ///< of the scores
  float dropout = 0;   ///< of the probabilities
  bool causal = false; ///< query i sees keys 0 to i
  random_key key{};    ///< of the dropout: element ((sample heads + head) queries + query) keys + key
};

struct attention_result {
  tensor y;        ///< (B, T, H)
  tensor log_sums; ///< (B, heads, T): of each query, log of the sum of exp of its scores, 0 where it sees no key
};

/// Of every sample and head softmax(scale q k^T) v (Vaswani et al. 2017), head h being features [h H / heads, (h + 1)
/// H / heads). `qkv`: q (B, T, H), k and v (B, S, H), or one tensor (B, T, 3 H) with q, k and v side by side.
/// `lengths`: i64 (B) or none; keys from that one on are not seen, and a query that sees none gives zeros. No T x S
/// tensor leaves the operation: the backward computes the probabilities again. The same bits for any number of threads.
class attention_ops {
public:
  static constexpr std::string_view family = "attention";
  virtual ~attention_ops() = default;

  virtual attention_result attention_forward(const attention_args& args, std::span<const tensor> qkv,
                                             const tensor& lengths) = 0;
  /// Gradients of `qkv`, one for one.
  virtual std::vector<tensor> attention_backward(const attention_args& args, std::span<const tensor> qkv,
                                                 const tensor& lengths, const tensor& log_sums, const tensor& dy) = 0;
};

/// Extents of an attention, and where q, k and v lie: for devices whose memory the host reads.
struct attention_geometry {
  std::int64_t batch, queries, keys, width, heads, head;

  attention_geometry(const attention_args& args, std::span<const tensor> qkv)
      : batch(qkv[0].dim(0)), queries(qkv[0].dim(1)), keys(qkv.size() == 1 ? queries : qkv[1].dim(1)),
        width(qkv.size() == 1 ? qkv[0].dim(2) / 3 : qkv[0].dim(2)), heads(args.heads), head(width / args.heads) {}

  /// Floats from one token to the next.
  std::int64_t stride(std::span<const tensor> qkv) const { return qkv[0].dim(2); }
  /// Of operand 0 (q), 1 (k), 2 (v): its first token in that sample, its features of that head.
  float* at(std::span<const tensor> qkv, std::size_t operand, std::int64_t sample, std::int64_t of_head) const {
    const bool packed = qkv.size() == 1;
    const tensor& t = qkv[packed ? 0 : operand];
    return t.data<float>() + sample * t.dim(1) * t.dim(2) + (packed ? static_cast<std::int64_t>(operand) * width : 0) +
           of_head * head;
  }
  /// Keys that a sample has.
  std::int64_t length(const tensor& lengths, std::int64_t sample) const {
    if (!lengths) return keys;
    const std::int64_t given = lengths.data<std::int64_t>()[sample];
    return given < 0 ? 0 : given > keys ? keys : given;
  }
  std::uint64_t element(std::int64_t sample, std::int64_t of_head, std::int64_t query) const {
    return static_cast<std::uint64_t>(((sample * heads + of_head) * queries + query) * keys);
  }
};

} // namespace penstock
