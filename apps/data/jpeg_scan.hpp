// What a JPEG's markers tell without decoding it: whether it can be read, and which way up it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace penstock::apps {

struct jpeg_scan {
  std::string fault;    ///< why read_jpeg() would refuse it, as far as markers tell; "": nothing found
  int orientation = 1;  ///< EXIF's, 1 to 8; 1 where it has none, or none that can be
  bool is_late = false; ///< the end marker was not near the file's end, so all of it was read
};

/// Reads the file's first kilobytes and its last, more only where something lies behind the picture. Throws nothing: a
/// file that cannot be read has a fault. Any thread.
jpeg_scan scan_jpeg(const std::filesystem::path& file);

} // namespace penstock::apps
