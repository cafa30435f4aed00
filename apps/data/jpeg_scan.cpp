// Walks a JPEG's segments from its start to the first scan, and looks for the end marker from the back.
#include "apps/data/jpeg_scan.hpp"

#include "apps/data/jpeg.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace penstock::apps {
namespace {

using namespace std::literals;

// The bytes of a file that is never waited for: a pipe has none.
class file_bytes {
public:
  explicit file_bytes(const std::filesystem::path& file)
      : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0)
      fault_ = "cannot read: " + std::generic_category().message(errno);
    else if (!S_ISREG(status.st_mode))
      fault_ = "cannot read: it is not a regular file";
    else
      size_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~file_bytes() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  file_bytes(const file_bytes&) = delete;
  file_bytes& operator=(const file_bytes&) = delete;

  const std::string& fault() const { return fault_; }
  std::uint64_t size() const { return size_; }

  // What is there from `at` on, up to `most` bytes.
  std::string_view at(std::uint64_t at, std::size_t most) {
    bytes_.resize(most);
    std::size_t got = 0;
    while (got < most) {
      const auto more = ::pread(descriptor_, bytes_.data() + got, most - got, static_cast<off_t>(at + got));
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) fault_ = "cannot read: " + std::generic_category().message(errno);
      if (more <= 0) break;
      got += static_cast<std::size_t>(more);
    }
    return {bytes_.data(), got};
  }

private:
  int descriptor_;
  std::string fault_;
  std::uint64_t size_ = 0;
  std::vector<char> bytes_;
};

std::uint32_t number(std::string_view bytes, std::size_t at, std::size_t size, bool is_big) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + (is_big ? i : size - 1 - i)]);
  return value;
}

// Of an APP1 segment; 1 where it says nothing that can be.
int orientation_of(std::string_view segment) {
  constexpr auto name = "Exif\0\0"sv;
  if (!segment.starts_with(name)) return 1;
  const auto tiff = segment.substr(name.size());
  const bool is_big = tiff.starts_with("MM");
  if (tiff.size() < 8 || (!is_big && !tiff.starts_with("II"))) return 1;
  const std::size_t directory = number(tiff, 4, 4, is_big);
  if (directory > tiff.size() || tiff.size() - directory < 2) return 1;
  const std::size_t entries = number(tiff, directory, 2, is_big);
  for (std::size_t i = 0; i < entries; ++i) {
    const auto entry = directory + 2 + 12 * i;
    if (tiff.size() < 12 || entry > tiff.size() - 12) return 1;
    if (number(tiff, entry, 2, is_big) != 0x0112) continue;
    const auto value = static_cast<int>(number(tiff, entry + 8, 2, is_big));
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

std::string kind_by_magic(std::string_view start) {
  constexpr std::array<std::pair<std::string_view, const char*>, 8> kinds{
      {{"\x89PNG"sv, "a PNG"},
       {"GIF8"sv, "a GIF"},
       {"BM"sv, "a BMP"},
       {"II*\0"sv, "a TIFF"},
       {"MM\0*"sv, "a TIFF"},
       {"\0\0\0\x0cjP"sv, "a JPEG 2000"},
       {"<"sv, "a web page or SVG"},
       {"version https://git-lfs"sv, "an LFS pointer"}}};
  for (const auto& [magic, name] : kinds)
    if (start.starts_with(magic)) return name;
  if (start.starts_with("RIFF") && start.substr(8).starts_with("WEBP")) return "a WebP";
  if (start.size() > 11 && start.substr(4).starts_with("ftyp")) return "a HEIF, AVIF or film";
  return "";
}

// Of a start of frame, whose marker is 0xFF `kind`.
std::string frame_fault(unsigned kind, std::string_view segment) {
  if (kind == 0xc3 || (kind >= 0xc5 && kind <= 0xc7) || kind == 0xcb || (kind >= 0xcd && kind <= 0xcf))
    return "a lossless or hierarchical JPEG, wanted a baseline or progressive one";
  if (segment.size() < 6) return "corrupt JPEG: a frame without size";
  const auto bits = number(segment, 0, 1, true);
  const auto height = std::int64_t{number(segment, 1, 2, true)};
  const auto width = std::int64_t{number(segment, 3, 2, true)};
  const auto colours = number(segment, 5, 1, true);
  if (bits != 8) return "a JPEG of " + std::to_string(bits) + " bits a sample, wanted 8";
  if (width == 0) return "corrupt JPEG: no pixels";
  if (height * width > most_jpeg_pixels)
    return "a JPEG of " + std::to_string(width) + "x" + std::to_string(height) + " pixels, wanted at most 100 million";
  if (colours != 1 && colours != 3 && colours != 4)
    return "a JPEG of " + std::to_string(colours) + " components, wanted 1, 3 or 4";
  return "";
}

constexpr const char* cut_off = "corrupt JPEG: Premature end of JPEG file";

bool is_frame(unsigned kind) {
  return kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc;
}

// Goes to the first scan; its place, or nothing after a fault.
std::optional<std::uint64_t> walk(file_bytes& file, jpeg_scan& found) {
  const auto start = file.at(0, 32);
  if (!start.starts_with("\xff\xd8")) {
    const auto kind = kind_by_magic(start);
    found.fault = start.empty()  ? "corrupt JPEG: Empty input file"
                  : kind.empty() ? "corrupt JPEG: Not a JPEG file"
                                 : "corrupt JPEG: Not a JPEG file but " + kind;
    return std::nullopt;
  }
  bool has_frame = false;
  for (std::uint64_t at = 2;;) {
    const auto head = file.at(at, 4);
    if (head.size() < 4) break;
    if (head[0] != '\xff') {
      ++at; // stray bytes, which libjpeg skips
      continue;
    }
    const auto kind = static_cast<unsigned char>(head[1]);
    if (kind == 0xff || kind == 0x00 || kind == 0x01 || (kind >= 0xd0 && kind <= 0xd8)) { // fill, or no segment
      at += kind == 0xff ? 1 : 2;
      continue;
    }
    const std::size_t length = number(head, 2, 2, true);
    if (kind == 0xd9 || length < 2) break;
    if (kind == 0xda) {
      if (!has_frame) found.fault = "corrupt JPEG: a scan before its frame";
      return has_frame ? std::optional(at + 2 + length) : std::nullopt;
    }
    const auto segment = file.at(at + 4, length - 2);
    if (segment.size() < length - 2) break;
    if (kind == 0xe1 && found.orientation == 1) found.orientation = orientation_of(segment);
    if (is_frame(kind)) {
      has_frame = true;
      found.fault = frame_fault(kind, segment);
      if (!found.fault.empty()) return std::nullopt;
    }
    at += 2 + length;
  }
  found.fault = cut_off;
  return std::nullopt;
}

// In a scan 0xFF is followed by 0 or a restart marker, so an end marker there is the picture's.
bool has_end(file_bytes& file, std::uint64_t scan, jpeg_scan& found) {
  constexpr std::size_t piece = 4096;
  constexpr auto end = "\xff\xd9"sv;
  const auto tail = std::max(scan, file.size() - std::min<std::uint64_t>(file.size(), piece));
  if (file.at(tail, piece).find(end) != std::string_view::npos) return true;
  found.is_late = true;
  for (auto at = scan; at < file.size(); at += 16 * piece)
    if (file.at(at, 16 * piece + 1).find(end) != std::string_view::npos) return true;
  return false;
}

} // namespace

jpeg_scan scan_jpeg(const std::filesystem::path& path) {
  jpeg_scan found;
  file_bytes file(path);
  if (file.fault().empty())
    if (const auto scan = walk(file, found); scan && !has_end(file, *scan, found)) found.fault = cut_off;
  if (!file.fault().empty()) found.fault = file.fault();
  return found;
}

} // namespace penstock::apps
