// libjpeg(-turbo), whose errors are jumps, behind a function that throws.
#include "apps/data/jpeg.hpp"

#include "apps/data/byte_file.hpp"

#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <jerror.h>

namespace penstock::apps {
namespace {

struct failure {
  jpeg_error_mgr manager; // first, since libjpeg knows only this part
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* f = reinterpret_cast<failure*>(info->err);
  f->manager.format_message(info, f->message);
  std::longjmp(f->jump, 1);
}

// Level -1 is a warning about damaged data, after which libjpeg would go on and invent pixels. Oddities that cost no
// pixel are common in the wild and let through.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM) return;
  leave(info);
}

void say_nothing(j_common_ptr) {}

// Each call of the library goes through guarded(); between it and the library's code lies nothing with a destructor.
class decoder {
public:
  decoder() {
    info_.err = ::jpeg_std_error(&failure_.manager);
    failure_.message[0] = '\0';
    failure_.manager.error_exit = leave;
    failure_.manager.emit_message = on_message;
    failure_.manager.output_message = say_nothing;
  }
  ~decoder() { ::jpeg_destroy_decompress(&info_); }
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;

  bool read_header(const std::vector<std::uint8_t>& bytes) {
    const unsigned char* data = bytes.data();
    const auto size = static_cast<unsigned long>(bytes.size());
    return guarded([this, data, size] {
      jpeg_create_decompress(&info_);
      ::jpeg_mem_src(&info_, data, size);
      ::jpeg_read_header(&info_, TRUE);
      const bool cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
      info_.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    });
  }

  bool start() {
    return guarded([this] { ::jpeg_start_decompress(&info_); });
  }

  bool read_row(std::uint8_t* row) {
    return guarded([this, row] {
      JSAMPROW rows[1] = {row};
      ::jpeg_read_scanlines(&info_, rows, 1);
    });
  }

  bool finish() {
    return guarded([this] { ::jpeg_finish_decompress(&info_); });
  }

  const jpeg_decompress_struct& info() const { return info_; }
  std::string message() const { return failure_.message; }

private:
  template <class Call>
  bool guarded(Call call) {
    if (setjmp(failure_.jump) != 0) return false;
    call();
    return true;
  }

  jpeg_decompress_struct info_{};
  failure failure_;
};

// Adobe's programs, which make nearly all such files, store ink inverted: 255 is none.
void rgb_from_cmyk(const std::uint8_t* cmyk, bool inverted, std::int64_t width, std::uint8_t* rgb) {
  for (std::int64_t x = 0; x < width; ++x, cmyk += 4) {
    const unsigned white = inverted ? cmyk[3] : 255U - cmyk[3];
    for (int c = 0; c < 3; ++c) {
      const unsigned light = inverted ? cmyk[c] : 255U - cmyk[c];
      *rgb++ = static_cast<std::uint8_t>((light * white + 127) / 255);
    }
  }
}

} // namespace

rgb_image read_jpeg(const std::filesystem::path& path) {
  byte_file file(path);
  const auto bytes = file.take(file.stored_bytes());
  decoder jpeg;
  const auto require = [&](bool fine) {
    if (!fine) file.fail("corrupt JPEG: " + jpeg.message());
  };
  require(jpeg.read_header(bytes));
  rgb_image image{jpeg.info().image_height, jpeg.info().image_width, {}};
  if (image.height * image.width > most_jpeg_pixels) {
    file.fail("a JPEG of " + std::to_string(image.width) + "x" + std::to_string(image.height) +
              " pixels, wanted at most 100 million");
  }
  require(jpeg.start());
  const bool cmyk = jpeg.info().out_color_space == JCS_CMYK;
  const bool inverted = jpeg.info().saw_Adobe_marker != 0;
  const auto row_bytes = image.width * 3;
  std::vector<std::uint8_t> ink(static_cast<std::size_t>(cmyk ? image.width * 4 : 0));
  image.pixels.resize(static_cast<std::size_t>(image.height * row_bytes));
  for (std::int64_t y = 0; y < image.height; ++y) {
    auto* row = image.pixels.data() + y * row_bytes;
    require(jpeg.read_row(cmyk ? ink.data() : row));
    if (cmyk) rgb_from_cmyk(ink.data(), inverted, image.width, row);
  }
  require(jpeg.finish());
  return image;
}

rgb_image upright(rgb_image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool swaps_axes = orientation >= 5;
  // As seen, before the axes are swapped: 2, 3, 7 and 8 run from right to left, 3, 4, 6 and 7 from below.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  rgb_image seen{swaps_axes ? image.width : image.height, swaps_axes ? image.height : image.width, {}};
  seen.pixels.resize(image.pixels.size());
  auto* to = seen.pixels.data();
  for (std::int64_t y = 0; y < seen.height; ++y) {
    for (std::int64_t x = 0; x < seen.width; ++x, to += 3) {
      auto row = swaps_axes ? x : y;
      auto column = swaps_axes ? y : x;
      if (from_below) row = image.height - 1 - row;
      if (from_right) column = image.width - 1 - column;
      std::copy_n(image.pixels.data() + 3 * (row * image.width + column), 3, to);
    }
  }
  return seen;
}

} // namespace penstock::apps
