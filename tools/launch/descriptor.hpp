// A file descriptor with an owner.
#pragma once

#include <unistd.h>
#include <utility>

namespace penstock::tools::launcher {

class descriptor {
public:
  descriptor() = default;
  explicit descriptor(int number) : number_(number) {}
  ~descriptor() { close(); }
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int get() const { return number_; } ///< -1: none
  bool is_open() const { return number_ >= 0; }
  void close() {
    if (is_open()) ::close(std::exchange(number_, -1));
  }

private:
  int number_ = -1;
};

struct pipe_ends {
  descriptor read;
  descriptor write;
};

/// Both ends close on exec. Throws penstock::error.
pipe_ends open_pipe();

} // namespace penstock::tools::launcher
