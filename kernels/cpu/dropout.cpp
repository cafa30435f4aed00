// Dropout: which elements it keeps depends on their place in plain order, whatever the layout here.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_elementwise.hpp"
#include "kernels/cpu/vector_loop.hpp"
#include "kernels/dropout_random.hpp"

namespace penstock {

tensor onednn_elementwise::dropout(const random_key& key, float p, tensor x) {
  tensor y = x.is_unique() ? x : context_.allocate(dtype::f32, x.dims(), memory_use::activations, x.format());
  const dropout_random random(key, p);
  const float* in = x.data<float>();
  float* out = y.data<float>();
  if (x.is_plain()) {
    element_loop(x.elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
      random.apply(static_cast<std::uint64_t>(begin), end - begin, in + begin, out + begin);
    });
    return y;
  }
  check(same_format(x.format(), context_.activation_format(x.dims())), "dropout needs the activation format");
  // (N, C/block, H*W, block): element (n, c, s) is number (n * C + c) * H*W + s. Padding is zero and stays so.
  const std::int64_t channels = x.dim(1), area = x.dim(2) * x.dim(3), block = context_.channel_block();
  const std::int64_t blocks = (channels + block - 1) / block;
  const float scale = random.scale();
  vector_loop(x.dim(0) * blocks * area, 1, (1 << 15) / block,
              [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t slab = i / area, n = slab / blocks, first = slab % blocks * block;
                  const std::int64_t base = (n * channels + first) * area + i % area;
                  for (std::int64_t c = 0; c < block; ++c)
                    out[i * block + c] =
                        random.keeps(static_cast<std::uint64_t>(base + c * area)) ? in[i * block + c] * scale : 0.0F;
                }
              });
  return y;
}

} // namespace penstock
