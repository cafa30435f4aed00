// A tensor's arrangement in memory as oneDNN describes it; which arrangement activations have; changes between them.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_context.hpp"

namespace penstock {

namespace {

dnnl::memory::data_type library_type(dtype type) {
  switch (type) {
  case dtype::f32:
    return dnnl::memory::data_type::f32;
  case dtype::bf16:
    return dnnl::memory::data_type::bf16;
  case dtype::i32:
    return dnnl::memory::data_type::s32;
  case dtype::u8:
    return dnnl::memory::data_type::u8;
  case dtype::i64:
  case dtype::f64:
    break;
  }
  throw error("[cpu] tensors of type " + std::string(name_of(type)) + " have only the plain format");
}

std::uint64_t mix(std::uint64_t hash, std::int64_t value) {
  hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

std::uint64_t hash_description(const dnnl_memory_desc_t& d) {
  std::uint64_t hash = mix(static_cast<std::uint64_t>(d.data_type) + 1, d.format_kind);
  for (int i = 0; i < d.ndims; ++i)
    hash = mix(mix(hash, d.dims[i]), d.padded_dims[i]);
  const auto& blocks = d.format_desc.blocking;
  for (int i = 0; i < d.ndims; ++i)
    hash = mix(hash, blocks.strides[i]);
  for (int i = 0; i < blocks.inner_nblks; ++i)
    hash = mix(mix(hash, blocks.inner_blks[i]), blocks.inner_idxs[i]);
  return hash;
}

} // namespace

onednn_format::onednn_format(dnnl::memory::desc description)
    : description_(std::move(description)), hash_(hash_description(description_.data)) {
  check(description_.data.format_kind == dnnl_blocked, "a tensor's format must be a blocked one");
}

bool onednn_format::equals(const tensor_format& other) const {
  const auto* same = dynamic_cast<const onednn_format*>(&other);
  return same != nullptr && same->hash_ == hash_ && same->description_ == description_;
}

std::string onednn_format::name() const {
  // As oneDNN's own tags: axes from the outermost, capitals where blocked, then the blocks ("aBcd16b" is nChw16c).
  const auto& d = description_.data;
  const auto& blocks = d.format_desc.blocking;
  std::vector<int> axes;
  for (int i = 0; i < d.ndims; ++i)
    axes.push_back(i);
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return blocks.strides[a] > blocks.strides[b]; });
  std::string text;
  for (const int axis : axes) {
    bool blocked = false;
    for (int i = 0; i < blocks.inner_nblks; ++i)
      blocked = blocked || blocks.inner_idxs[i] == axis;
    text += static_cast<char>((blocked ? 'A' : 'a') + axis);
  }
  for (int i = 0; i < blocks.inner_nblks; ++i)
    text += std::to_string(blocks.inner_blks[i]) + static_cast<char>('a' + blocks.inner_idxs[i]);
  return text;
}

dnnl::memory::desc plain_description(dtype type, const shape& dims) {
  dnnl::memory::dims strides(dims.size());
  std::int64_t step = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return {dims, library_type(type), strides};
}

format_ptr format_of(const dnnl::memory::desc& description) {
  const auto& d = description.data;
  bool plain = d.format_desc.blocking.inner_nblks == 0;
  std::int64_t step = 1;
  for (int i = d.ndims - 1; i >= 0; --i) {
    // The stride of an axis of extent 1 means nothing.
    if (d.dims[i] != 1) plain = plain && d.format_desc.blocking.strides[i] == step && d.padded_dims[i] == d.dims[i];
    step *= d.dims[i];
  }
  if (plain) return nullptr;
  return std::make_shared<onednn_format>(description);
}

dnnl::memory::desc description_of(const format_ptr& format, dtype type, const shape& dims) {
  if (format == nullptr) return plain_description(type, dims);
  const auto* known = dynamic_cast<const onednn_format*>(format.get());
  check(known != nullptr, "a tensor of another backend's format");
  return known->description();
}

dnnl::memory::desc description_of(const tensor& x) {
  return description_of(x.format(), x.type(), x.dims());
}

std::uint64_t hash_of(const format_ptr& format) {
  if (format == nullptr) return 0;
  const auto* known = dynamic_cast<const onednn_format*>(format.get());
  check(known != nullptr, "a tensor of another backend's format");
  return known->hash();
}

format_ptr onednn_context::activation_format(const shape& dims) {
  // A promise: the layout depends on the channels and the instruction set alone, whatever the neighbours would like,
  // because results differ between layouts in their last bits. Raw images stay plain.
  if (dims.size() != 4 || dims[1] <= 4 || channel_block_ == 1) return nullptr;
  const auto key = shape_key::of(dims);
  return activation_formats_.find_or_make(key, [&] {
    const auto tag = channel_block_ == 16 ? dnnl::memory::format_tag::nChw16c : dnnl::memory::format_tag::nChw8c;
    return std::make_shared<const onednn_format>(dnnl::memory::desc(dims, dnnl::memory::data_type::f32, tag));
  });
}

tensor onednn_context::reorder(const tensor& x, format_ptr format, memory_use use) {
  if (same_format(x.format(), format)) return x;
  tensor y = allocate(x.type(), x.dims(), use, std::move(format));
  reorder_into(x, y);
  return y;
}

void onednn_context::reorder_into(const tensor& x, const tensor& y) {
  const auto key =
      shape_key::of(x.dims(), static_cast<std::int64_t>(x.type()), hash_of(x.format()), hash_of(y.format()));
  const auto entry = reorders_.find_or_make(key, [&] {
    // A grouped weight has five dimensions for oneDNN; its plain side takes them from the other.
    const auto source = x.is_plain() ? plain_description(x.type(), description_of(y).dims()) : description_of(x);
    const auto target = y.is_plain() ? plain_description(y.type(), source.dims()) : description_of(y);
    const dnnl::reorder::primitive_desc pd(engine_, source, engine_, target, user_scratchpad());
    auto made = std::make_shared<reorder_entry>();
    made->run = bound_primitive(pd, dnnl::reorder(pd), {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}});
    return made;
  });
  execute(entry->run, {{DNNL_ARG_FROM, x.raw()}, {DNNL_ARG_TO, y.raw()}});
}

void onednn_context::reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) {
  // Not kept: each is of use once.
  dnnl::memory::dims offsets(plain.rank());
  offsets[0] = first;
  const auto source = description_of(plain);
  const auto rows = description_of(target).submemory_desc(plain.dims(), offsets);
  const dnnl::reorder::primitive_desc pd(engine_, source, engine_, rows, user_scratchpad());
  bound_primitive run(pd, dnnl::reorder(pd), {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, rows}});
  execute(run, {{DNNL_ARG_FROM, plain.raw()}, {DNNL_ARG_TO, target.raw()}});
}

} // namespace penstock
