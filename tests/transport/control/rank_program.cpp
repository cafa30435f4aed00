// One rank of a test's job as a process of its own, to be killed, stopped or cut off.
//
//     rank_program RANK SIZE HOST PORT SILENCE_MS wait | fail | leave
//
// Prints "joined" and its clock offset, does as told, and prints the outcome: "left", or the first cause.
#include "kernels/check.hpp"
#include "tests/transport/control/test_job.hpp"

#include <cstdlib>
#include <iostream>
#include <string>

namespace penstock::transport {
namespace {

int run(char** words) {
  launch where;
  where.rank = std::atoi(words[1]);
  where.size = std::atoi(words[2]);
  where.master = words[3];
  where.port = std::atoi(words[4]);
  join_options options;
  options.secret = secret_from_text(test::job_password);
  options.silence = std::chrono::milliseconds(std::atoi(words[5]));
  const std::string act = words[6];
  const auto plane = join_job(where, options);
  plane->doing("training minibatch 7");
  std::cout << "joined, clock offset " << plane->clock_offset_ns() << " ns" << std::endl;
  if (act == "fail") {
    plane->fail("the disk is full");
    return 1; // at once: the others must learn it all the same
  }
  if (act == "leave") {
    plane->leave(20s);
    std::cout << "left" << std::endl;
    return 0;
  }
  const auto cause = test::failure_at(*plane);
  std::cout << cause.text << std::endl;
  return 1;
}

} // namespace
} // namespace penstock::transport

int main(int count, char** words) {
  if (count != 7) return 2;
  try {
    return penstock::transport::run(words);
  } catch (const std::exception& e) {
    std::cout << e.what() << std::endl;
    return 1;
  }
}
