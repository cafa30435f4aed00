// Plain reads and zlib's inflate behind one front-to-back interface.
#include "apps/data/byte_file.hpp"

#include "kernels/check.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <system_error>

namespace penstock::apps {

struct byte_file::inflater {
  z_stream stream{};
  std::array<std::uint8_t, 1 << 16> stored;
  bool member_ended = false;
};

byte_file::byte_file(std::filesystem::path file) : file_(std::move(file)), stored_(file_) {
  if (file_.extension() != ".gz") return;
  inflater_ = std::make_unique<inflater>();
  constexpr int gzip_only = 16 + MAX_WBITS;
  if (::inflateInit2(&inflater_->stream, gzip_only) == Z_OK) return;
  inflater_.reset();
  fail("cannot read: no memory");
}

byte_file::~byte_file() {
  if (inflater_) ::inflateEnd(&inflater_->stream);
}

void byte_file::fail(const std::string& what) const {
  throw error(file_.string() + ": " + what);
}

std::size_t byte_file::read_stored(std::uint8_t* to, std::size_t size) {
  const auto done = stored_.read_some(stored_position_, to, size);
  stored_position_ += done;
  return done;
}

// Up to `size` bytes; 0 at the end.
std::size_t byte_file::read_some(std::uint8_t* to, std::size_t size) {
  if (!inflater_) return read_stored(to, size);
  auto& stream = inflater_->stream;
  stream.next_out = to;
  stream.avail_out = static_cast<uInt>(std::min(size, std::size_t{1} << 30));
  const auto wanted = stream.avail_out;
  while (stream.avail_out == wanted) {
    if (stream.avail_in == 0) {
      stream.next_in = inflater_->stored.data();
      stream.avail_in = static_cast<uInt>(read_stored(inflater_->stored.data(), inflater_->stored.size()));
      if (stream.avail_in == 0) {
        if (inflater_->member_ended) return 0;
        fail("the gzip data ends early (truncated?)");
      }
    }
    // A gzip file may be several, one after the other.
    if (inflater_->member_ended) ::inflateReset(&stream);
    inflater_->member_ended = false;
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END)
      inflater_->member_ended = true;
    else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail(std::string("corrupt gzip data: ") + (stream.msg != nullptr ? stream.msg : "invalid"));
    }
  }
  return wanted - stream.avail_out;
}

void byte_file::read(std::uint8_t* to, std::size_t size) {
  while (size > 0) {
    const auto done = read_some(to, size);
    if (done == 0) {
      fail("ends after " + std::to_string(position_) + " bytes, wanted " + std::to_string(size) + " more (truncated?)");
    }
    to += done;
    size -= done;
    position_ += done;
  }
}

std::vector<std::uint8_t> byte_file::take(std::uint64_t size) {
  const std::uint64_t most = inflater_ ? (stored_bytes() + 1) * 1032 : stored_bytes();
  if (size > most || position_ > most - size) {
    fail("holds " + std::to_string(stored_bytes()) + " bytes, too few for the " + std::to_string(size) +
         " that its header promises (truncated?)");
  }
  std::vector<std::uint8_t> bytes(size);
  read(bytes.data(), bytes.size());
  return bytes;
}

void byte_file::expect_end() {
  std::uint8_t more = 0;
  if (read_some(&more, 1) != 0) {
    fail("goes on after the " + std::to_string(position_) + " bytes that its header promises");
  }
}

void require_folder(const std::filesystem::path& folder) {
  std::error_code reason;
  const auto status = std::filesystem::status(folder, reason);
  if (status.type() == std::filesystem::file_type::not_found) throw error(folder.string() + ": no such folder");
  if (reason) throw error(folder.string() + ": cannot read: " + reason.message());
  if (!std::filesystem::is_directory(status)) throw error(folder.string() + ": it is a file, wanted a folder");
}

} // namespace penstock::apps
