// Samples from a safetensors file, for comparisons with other frameworks: values go in as they are.
#include "apps/data/formats.hpp"
#include "kernels/check.hpp"
#include "kernels/finite.hpp"
#include "kernels/safetensors.hpp"
#include "kernels/text.hpp"

#include <algorithm>

namespace penstock::apps {
namespace {

tensor taken(const std::filesystem::path& file, const named_tensors& tensors, const char* name) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    throw error(file.string() + ": no tensor named " + in_quotes(name) + " (wanted input and target)");
  return found->second;
}

std::int64_t label_at(const tensor& target, std::int64_t i) {
  return target.type() == dtype::i64 ? target.data<std::int64_t>()[i] : target.data<std::int32_t>()[i];
}

class tensor_set final : public actors::labelled_images {
public:
  tensor_set(const std::filesystem::path& file, const data_options& options)
      : file_(file.string()), classes_(options.classes) {
    auto contents = read_safetensors(file, pool_);
    input_ = taken(file, contents.tensors, "input");
    target_ = taken(file, contents.tensors, "target");
    check_forms(options);
    check_labels();
    require_finite(input_, file_ + ": tensor 'input'");
  }

  std::int64_t size() const override { return input_.dim(0); }
  tensor_spec input() const override { return {dtype::f32, {input_.dim(1), input_.dim(2), input_.dim(3)}}; }
  std::int64_t classes() const override { return classes_; }
  bool shuffled() const override { return false; }

  std::int64_t load(const actors::sample_key& key, bool, float* to) const override {
    check(key.index >= 0 && key.index < size(), "a sample's index lies within its data set");
    const auto values = input_.dim(1) * input_.dim(2) * input_.dim(3);
    if (input_.type() == dtype::f32) {
      std::copy_n(input_.data<float>() + key.index * values, values, to);
    } else {
      const auto* from = input_.data<std::uint8_t>() + key.index * values;
      std::transform(from, from + values, to, [](std::uint8_t value) { return static_cast<float>(value); });
    }
    return label_at(target_, key.index);
  }

  std::string description() const override {
    return "tensors: input " + to_string(input_.dims()) + " from " + file_ + ", in file order";
  }

private:
  void check_forms(const data_options& options) const {
    const bool input_type = input_.type() == dtype::f32 || input_.type() == dtype::u8;
    if (!input_type || input_.rank() != 4) {
      throw error(file_ + ": input is " + std::string(name_of(input_.type())) + " of shape " +
                  to_string(input_.dims()) + ", wanted F32 or U8 of shape (N, C, H, W)");
    }
    const bool target_type = target_.type() == dtype::i64 || target_.type() == dtype::i32;
    if (!target_type || target_.rank() != 1) {
      throw error(file_ + ": target is " + std::string(name_of(target_.type())) + " of shape " +
                  to_string(target_.dims()) + ", wanted I64 or I32 of shape (N)");
    }
    if (input_.dim(0) != target_.dim(0)) {
      throw error(file_ + ": " + std::to_string(input_.dim(0)) + " samples in input, but " +
                  std::to_string(target_.dim(0)) + " in target");
    }
    if (input_.dim(0) == 0) throw error(file_ + ": holds no samples");
    if (input_.dim(1) != options.channels || input_.dim(2) != options.image_size ||
        input_.dim(3) != options.image_size) {
      throw error(file_ + ": input has shape " + to_string(input_.dims()) + ", the network takes " +
                  to_string({input_.dim(0), options.channels, options.image_size, options.image_size}));
    }
  }

  void check_labels() const {
    for (std::int64_t i = 0; i < target_.dim(0); ++i) {
      const auto label = label_at(target_, i);
      if (label < 0 || label >= classes_) {
        throw error(file_ + ": label " + std::to_string(label) + " at index " + std::to_string(i) + ", wanted 0 to " +
                    std::to_string(classes_ - 1));
      }
    }
  }

  memory_pool pool_;
  std::string file_;
  std::int64_t classes_;
  tensor input_;
  tensor target_;
};

} // namespace

image_pair open_tensors(const std::filesystem::path& file, const data_options& options) {
  return {std::make_unique<tensor_set>(file, options), nullptr};
}

} // namespace penstock::apps
