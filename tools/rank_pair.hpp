// Two processes that move the same messages in two ways by turns: straight on UCX, and as a benchmark of ours does.
#pragma once

#include "tools/bare_ucx.hpp"
#include "transport/endpoint.hpp"

#include <functional>

/// So many messages of one size: there and back one at a time, or one way with eight under way.
struct experiment {
  bool is_stream = false;
  std::size_t bytes = 0;
  int count = 0; ///< messages a round
};
inline constexpr int in_flight = 8;

double seconds_since(std::chrono::steady_clock::time_point start);
double median(std::vector<double> values);

/// The two processes' line to each other, for addresses and for starting together. Throws penstock::error when the
/// other process is gone, or silent for a minute.
class pair_line {
public:
  /// Takes one end of a socket pair.
  explicit pair_line(int descriptor);
  ~pair_line();
  pair_line(const pair_line&) = delete;
  pair_line& operator=(const pair_line&) = delete;

  /// Gives a text for the other's.
  std::string exchange(const std::string& mine);
  void meet() { exchange("here"); }

private:
  int descriptor_;
};

/// Runs one round with the other process, whose rank is 1 minus that of the endpoint: the seconds that a message took,
/// at rank 0. The other's answer is not looked at.
using moving = std::function<double(const experiment&)>;
using moving_over = std::function<moving(penstock::transport::endpoint&, pair_line&)>;

/// A benchmark's main(): `PROGRAM [rounds] [shared or network]`. Forks both ranks for each route, has them run every
/// experiment in both ways by turns, and prints medians of the rounds. Returns the exit status.
int compare_with_bare_ucx(int argc, char** argv, const moving_over& ours);
