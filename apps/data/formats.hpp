// The formats behind open_data. Each is opened by one function in the .cpp file of its name.
#pragma once

#include "apps/data/data.hpp"
#include "apps/data/image_transform.hpp"

#include <filesystem>

namespace penstock::apps {

/// Images as MNIST has them: (train|t10k)-(images-idx3|labels-idx1)-ubyte, each with or without ".gz". No augmentation,
/// as is usual for MNIST and Fashion-MNIST. `kind` is the specification's word.
image_pair open_idx(const std::string& kind, const std::filesystem::path& folder, const normalization& values,
                    const data_options& options);

/// CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin, records of a label and 3x32x32
/// bytes. Augmented by a random crop out of 4 pixels of padding and a random flip.
image_pair open_cifar10(const std::filesystem::path& folder, const data_options& options);

/// JPEGs in a folder per class: FOLDER/train/CLASS/*.jpg and FOLDER/val or FOLDER/test, or FOLDER/CLASS/*.jpg without a
/// test set. Classes are numbered in byte order of their folders' names. Decoded on demand.
image_pair open_image_folder(const std::filesystem::path& folder, const data_options& options);

/// `input` (f32 or u8, (N, C, H, W)) and `target` (i64 or i32, (N)) of a safetensors file, as they are and in order.
image_pair open_tensors(const std::filesystem::path& file, const data_options& options);

/// Random images that can be learned: a pattern per class under noise, all from the seed.
image_pair open_synthetic(const data_options& options);

} // namespace penstock::apps
