// Lines in, lines out.
#include "tools/launch/output.hpp"

#include <climits>

#include <algorithm>
#include <array>
#include <cerrno>

namespace penstock::tools::launcher {

void outlet::put(int to, std::string text) {
  if (broken_.contains(to)) return;
  waiting_bytes_ += text.size();
  waiting_.push_back({to, std::move(text)});
}

void outlet::write_some() {
  auto& line = waiting_.front();
  // A pipe that is writable takes so much at once.
  const auto bytes = std::min<std::size_t>(line.text.size() - line.written, PIPE_BUF);
  const auto done = ::write(line.to, line.text.data() + line.written, bytes);
  if (done < 0 && errno != EINTR && errno != EAGAIN) {
    broken_.insert(line.to);
    drop_front();
    return;
  }
  if (done > 0) line.written += static_cast<std::size_t>(done);
  if (line.written == line.text.size()) drop_front();
}

void outlet::drop_front() {
  waiting_bytes_ -= waiting_.front().text.size();
  waiting_.pop_front();
}

void line_reader::read_some() {
  take();
}

void line_reader::drain() {
  // More than a pipe holds; a process that got away may write for ever.
  for (int reads = 0; reads < 64 && is_open() && take(); ++reads) {
  }
  if (is_open()) close();
}

bool line_reader::take() {
  std::array<char, 65536> bytes;
  const auto got = ::read(from_.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
  if (got <= 0) {
    close();
    return false;
  }
  rest_.append(bytes.data(), static_cast<std::size_t>(got));
  cut();
  return true;
}

void line_reader::cut() {
  std::size_t at = 0;
  for (auto end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', at)) {
    on_line_(rest_.substr(at, end - at));
    at = end + 1;
  }
  rest_.erase(0, at);
  while (rest_.size() > most_line_bytes) {
    std::size_t bytes = most_line_bytes;
    while (bytes > most_line_bytes - 4 && (static_cast<unsigned char>(rest_[bytes]) & 0xc0) == 0x80)
      --bytes;
    on_line_(rest_.substr(0, bytes));
    rest_.erase(0, bytes);
  }
}

void line_reader::close() {
  if (!rest_.empty()) on_line_(std::exchange(rest_, {}));
  from_.close();
}

} // namespace penstock::tools::launcher
