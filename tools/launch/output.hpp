// Whole lines of many ranks on the launcher's own stdout and stderr.
#pragma once

#include "tools/launch/descriptor.hpp"

#include <deque>
#include <functional>
#include <set>
#include <string>

namespace penstock::tools::launcher {

/// What waits to be written, in order. Writing never blocks, since the launcher has to hear signals even while whoever
/// reads its output does not.
class outlet {
public:
  void put(int to, std::string line); ///< STDOUT_FILENO or STDERR_FILENO; with its end of line
  bool is_empty() const { return waiting_.empty(); }
  bool is_full() const { return waiting_bytes_ >= most_waiting_bytes; } ///< time to stop reading from the ranks
  int writable() const { return waiting_.front().to; }                  ///< to poll; not when empty
  void write_some();                                                    ///< once it is writable
  bool has_lost_output() const { return !broken_.empty(); }             ///< a full disk, or nobody reads

private:
  static constexpr std::size_t most_waiting_bytes = std::size_t{4} << 20;

  struct waiting_line {
    int to;
    std::string text;
    std::size_t written = 0;
  };
  void drop_front();

  std::deque<waiting_line> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::set<int> broken_;
};

/// One stream of one rank, cut into lines. A line that is too long to be kept whole is cut in several, never within a
/// UTF-8 character; the last one need not end.
class line_reader {
public:
  using line_handler = std::function<void(std::string line)>; ///< without its end

  line_reader() = default;
  line_reader(descriptor from, line_handler on_line) : from_(std::move(from)), on_line_(std::move(on_line)) {}

  bool is_open() const { return from_.is_open(); }
  int readable() const { return from_.get(); } ///< to poll
  void read_some();                            ///< what is there, up to some bytes; must not be called when closed
  void drain();                                ///< all that is there, then close, whoever else holds the other end

private:
  static constexpr std::size_t most_line_bytes = std::size_t{1} << 20;

  bool take(); ///< false: nothing there now, or closed
  void cut();
  void close();

  descriptor from_;
  line_handler on_line_;
  std::string rest_; ///< of a line whose end has not come
};

} // namespace penstock::tools::launcher
