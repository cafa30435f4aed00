// Rank 0's door: lets in who knows the secret and says who it is, within a time, and nobody else.
#pragma once

#include "transport/control/link.hpp"

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace penstock::transport {

/// Listens as long as the job runs, since a stranger must be refused and a late rank heard. All on the network's
/// thread.
class listener {
public:
  /// The greeting of a visitor that has proved to know the secret. True: the line is now the caller's.
  using greeter = std::function<bool(const std::shared_ptr<link>&, const frame& hello)>;
  /// A visitor was turned away: its address, and why.
  using reporter = std::function<void(const std::string& address, const std::string& why)>;

  static constexpr std::size_t most_visitors = 64;

  /// `patience`: for a visitor's handshake and hello.
  listener(boost::asio::io_context& network, boost::asio::ip::tcp::acceptor door, boost::asio::ssl::context& tls,
           std::chrono::milliseconds patience, greeter greet, reporter report);
  ~listener();
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  void start();
  /// No new visitors; those that have not said hello are cut off, those that are being answered get their answer.
  void stop();
  /// Tells a visitor why it is refused, and closes when it has heard it. One that is too early is not reported.
  void dismiss(const std::shared_ptr<link>& line, const frame& answer);

private:
  struct visitor;

  void wait();
  void accept_some();
  void pause();
  void receive(boost::asio::ip::tcp::socket socket, const boost::asio::ip::tcp::endpoint& from);
  void expect_hello(const std::shared_ptr<visitor>& v);
  void greet(const std::shared_ptr<visitor>& v, const frame& hello);
  void turn_away(const std::shared_ptr<visitor>& v, const std::string& why);
  void forget(const std::shared_ptr<visitor>& v);

  boost::asio::io_context& network_;
  boost::asio::ip::tcp::acceptor door_;
  boost::asio::steady_timer pause_;
  boost::asio::ssl::context& tls_;
  const std::chrono::milliseconds patience_;
  greeter greet_;
  reporter report_;
  bool stopped_ = false;
  std::uint64_t next_number_ = 0;
  std::map<std::uint64_t, std::shared_ptr<visitor>> visitors_; // the oldest first
};

} // namespace penstock::transport
