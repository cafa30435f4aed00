// Ranks as threads, over loopback.
#include "tests/transport/control/test_job.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <condition_variable>
#include <future>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace penstock::transport::test {

struct log_lines::shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> lines;
};

std::shared_ptr<log_lines::shared> log_lines::make() {
  return std::make_shared<shared>();
}

std::function<void(const std::string&)> log_lines::writer() {
  return [self = self_](const std::string& line) {
    const std::lock_guard lock(self->mutex);
    self->lines.push_back(line);
    self->changed.notify_all();
  };
}

std::vector<std::string> log_lines::all() const {
  const std::lock_guard lock(self_->mutex);
  return self_->lines;
}

bool log_lines::wait_for(const std::string& text) const {
  std::unique_lock lock(self_->mutex);
  return self_->changed.wait_for(lock, 10s, [&] {
    return std::ranges::any_of(self_->lines, [&](const auto& l) { return l.find(text) != std::string::npos; });
  });
}

test_job::test_job(int size) : size_(size), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof own;
  if (::bind(socket_, reinterpret_cast<sockaddr*>(&own), bytes) != 0 || ::listen(socket_, 128) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &bytes) != 0)
    throw std::runtime_error("no port of 127.0.0.1 to listen on");
  port_ = ntohs(own.sin_port);
}

test_job::~test_job() {
  if (socket_ >= 0) ::close(socket_);
}

launch test_job::of(int rank) {
  launch where;
  where.rank = rank;
  where.size = size_;
  where.port = port_;
  if (rank == 0) where.listening_socket = std::exchange(socket_, -1); // rank 0 takes it over
  return where;
}

join_options test_job::options() const {
  join_options o;
  o.secret = secret_from_text(job_password);
  o.facts = {{"binary", "1.0"}, {"options", "--batch 8"}};
  o.silence = 2s;
  o.join_deadline = 10s;
  o.visitor_patience = 2s;
  auto lines = log;
  o.log = lines.writer();
  return o;
}

planes test_job::join_all() {
  return join_all(options());
}

planes test_job::join_all(const join_options& all) {
  std::vector<std::future<std::unique_ptr<control_plane>>> joining;
  for (int r = 0; r < size_; ++r)
    joining.push_back(std::async(std::launch::async, [where = of(r), &all] { return join_job(where, all); }));
  planes joined;
  for (auto& j : joining)
    joined.push_back(j.get());
  return joined;
}

std::vector<std::string> test_job::errors_of_joining(const std::function<void(int, launch&, join_options&)>& change) {
  std::vector<std::future<std::string>> joining;
  for (int r = 0; r < size_; ++r) {
    auto where = of(r);
    auto own = options();
    change(r, where, own);
    joining.push_back(std::async(std::launch::async, [where, own] {
      const auto said = error_of([&] { join_job(where, own); });
      return said == "no error" ? "" : said;
    }));
  }
  std::vector<std::string> said;
  for (auto& j : joining)
    said.push_back(j.get());
  return said;
}

void on_all(const planes& ranks, const std::function<void(control_plane&)>& act) {
  std::vector<std::future<void>> running;
  for (const auto& p : ranks)
    running.push_back(std::async(std::launch::async, [&act, &p] { act(*p); }));
  for (auto& r : running)
    r.get();
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const error& e) {
    return e.what();
  } catch (const usage_error& e) {
    return e.what();
  }
  return "no error";
}

job_failure failure_at(control_plane& rank) {
  const auto told = std::make_shared<std::promise<job_failure>>();
  rank.on_failure([told](const job_failure& f) { told->set_value(f); });
  auto future = told->get_future();
  return future.wait_for(10s) == std::future_status::ready ? future.get() : job_failure{};
}

} // namespace penstock::transport::test
