// Data sets for tests.
#include "tests/data/data_files.hpp"

#include <jpeglib.h>
#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace penstock::apps {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  if (::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string out(::deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

std::string idx(const std::vector<std::uint32_t>& extents, const std::string& bytes) {
  auto file = big_endian(0x800 | static_cast<std::uint32_t>(extents.size()));
  for (const auto extent : extents)
    file += big_endian(extent);
  return file + bytes;
}

std::string pattern(std::size_t count, unsigned start) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<char>((i * 31 + i / 7 + start) & 0xFF);
  return bytes;
}

void write_idx_folder(const std::filesystem::path& folder, std::uint32_t train, std::uint32_t test,
                      std::uint32_t height, std::uint32_t width) {
  const auto write_half = [&](const std::string& half, std::uint32_t count) {
    std::string labels;
    for (std::uint32_t i = 0; i < count; ++i)
      labels += static_cast<char>(i % 10);
    write_file(folder / (half + "-images-idx3-ubyte"),
               idx({count, height, width}, pattern(std::size_t{count} * height * width)));
    write_file(folder / (half + "-labels-idx1-ubyte"), idx({count}, labels));
  };
  write_half("train", train);
  write_half("t10k", test);
}

void write_cifar_folder(const std::filesystem::path& folder, std::size_t records) {
  unsigned next = 0;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"}) {
    std::string bytes;
    for (std::size_t i = 0; i < records; ++i, ++next)
      bytes += static_cast<char>(next % 10) + pattern(3072, next);
    write_file(folder / name, bytes);
  }
}

namespace {

// `row` fills one row of `components` values per pixel.
std::string compressed(std::int64_t width, std::int64_t height, int components, J_COLOR_SPACE space,
                       const std::function<void(std::vector<std::uint8_t>& row)>& fill) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = ::jpeg_std_error(&errors); // exits on an error: fine in a test's own files
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  ::jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = components;
  info.in_color_space = space;
  ::jpeg_set_defaults(&info);
  ::jpeg_set_quality(&info, 100, TRUE);
  ::jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(width * components));
  fill(row);
  for (std::int64_t y = 0; y < height; ++y) {
    JSAMPROW rows[1] = {row.data()};
    ::jpeg_write_scanlines(&info, rows, 1);
  }
  ::jpeg_finish_compress(&info);
  ::jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  std::free(memory); // NOLINT: libjpeg allocated it
  return bytes;
}

} // namespace

std::string jpeg_of(std::int64_t width, std::int64_t height, jpeg_colours colours, std::vector<std::uint8_t> c) {
  const auto space = colours == jpeg_colours::grey ? JCS_GRAYSCALE : colours == jpeg_colours::rgb ? JCS_RGB : JCS_CMYK;
  return compressed(width, height, static_cast<int>(c.size()), space, [&](auto& row) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = c[i % c.size()];
  });
}

std::string jpeg_of_halves(std::int64_t width, std::int64_t height) {
  return compressed(width, height, 1, JCS_GRAYSCALE, [](auto& row) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = i < row.size() / 2 ? 0 : 255;
  });
}

} // namespace penstock::apps
