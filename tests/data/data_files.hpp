// Writes small data sets for tests, byte by byte, independently of the readers.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace penstock::apps {

using testing_support::read_file;
using testing_support::temporary_folder;
using testing_support::write_file;

std::string big_endian(std::uint32_t value);
std::string gzip(const std::string& bytes);

/// IDX bytes with the right magic number for the extents.
std::string idx(const std::vector<std::uint32_t>& extents, const std::string& bytes);

/// `count` bytes that differ from place to place.
std::string pattern(std::size_t count, unsigned start = 0);

/// A folder as of MNIST: `train` and `test` images of height x width; labels are the index modulo 10.
void write_idx_folder(const std::filesystem::path& folder, std::uint32_t train, std::uint32_t test,
                      std::uint32_t height = 5, std::uint32_t width = 5);

/// A folder as of CIFAR-10 with so many records a file.
void write_cifar_folder(const std::filesystem::path& folder, std::size_t records);

enum class jpeg_colours : std::uint8_t { grey, rgb, cmyk };

/// A baseline JPEG of one colour (so that compression costs nothing): grey uses c[0]; CMYK is stored inverted, as Adobe
/// does.
std::string jpeg_of(std::int64_t width, std::int64_t height, jpeg_colours colours, std::vector<std::uint8_t> c);

/// A JPEG whose left half is black and right half white.
std::string jpeg_of_halves(std::int64_t width, std::int64_t height);

} // namespace penstock::apps
