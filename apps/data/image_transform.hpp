// From stored pixels to what a network takes: crop, flip, bilinear resize, channels, normalisation.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::apps {

/// Mean and deviation per channel of pixels scaled to [0, 1].
struct normalization {
  std::vector<float> mean;
  std::vector<float> deviation;
};

inline normalization fashion_mnist_normalization() {
  return {{0.2860F}, {0.3530F}};
}
inline normalization mnist_normalization() {
  return {{0.1307F}, {0.3081F}};
}
inline normalization cifar10_normalization() {
  return {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
}
inline normalization imagenet_normalization() {
  return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
}

/// Pixels that somebody else owns. Planar when pixel_stride is 1, interleaved when channel_stride is 1.
struct pixel_view {
  const std::uint8_t* data = nullptr;
  std::int64_t channels = 1; ///< 1 (grey) or 3 (red, green, blue)
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channel_stride = 0;
  std::int64_t pixel_stride = 1;
};

/// Which part of the image, resized to height x width, becomes the output, and how.
struct placement {
  std::int64_t height = 0; ///< of the whole image after resizing
  std::int64_t width = 0;
  std::int64_t top = 0; ///< of the output within it
  std::int64_t left = 0;
  std::int64_t shift_down = 0; ///< source rows and columns to move by first; what comes in from outside is black
  std::int64_t shift_right = 0;
  bool flip = false; ///< mirror left and right, last
};

/// Makes (channels, size, size) row-major floats. Stateless after construction; called from any thread.
///
/// Resizing is torchvision's `Resize` (bilinear): pixel centres at half integers (align_corners=false), and when an
/// axis shrinks the filter widens with it (antialias). Enlarging equals PyTorch's `interpolate`. Grey is repeated to
/// as many channels as asked for; colour becomes grey by the Rec. 601 weights 0.299, 0.587, 0.114, and then mean and
/// deviation are those of the colours with the same weights.
class image_transform {
public:
  /// Throws usage_error unless source_channels can become `channels` (3 becomes 3 or 1).
  image_transform(std::int64_t source_channels, std::int64_t channels, std::int64_t size, const normalization& values);

  std::int64_t channels() const { return channels_; }
  std::int64_t size() const { return size_; }
  /// As applied: one mean and deviation where grey is repeated or made, else three.
  const normalization& values() const { return values_; }

  /// The whole image resized to size x size.
  placement whole() const { return {size_, size_}; }

  void apply(const pixel_view& image, const placement& where, float* output) const;

private:
  std::int64_t source_channels_;
  std::int64_t channels_;
  std::int64_t size_;
  normalization values_;
  std::vector<float> scale_; // output = pixel * scale + offset
  std::vector<float> offset_;
};

} // namespace penstock::apps
