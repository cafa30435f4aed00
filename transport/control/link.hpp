// One TLS connection that carries frames, on the network's thread.
#pragma once

#include "transport/control/frame.hpp"
#include "transport/control/tls.hpp"

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace penstock::transport {

/// Begins after the handshake, which its user does on stream(). All functions and events on the thread that runs the
/// stream's io_context. Alive as long as the user holds it or an operation is under way.
class link : public std::enable_shared_from_this<link> {
public:
  struct events {
    std::function<void(frame)> on_frame;                ///< what it throws as error counts as garbage
    std::function<void()> on_bytes;                     ///< some have come, a whole frame or not
    std::function<void()> on_closed;                    ///< the other side closed it, or the network did
    std::function<void(const std::string&)> on_garbage; ///< the bytes are no frames; the connection is closed
  };

  /// `other`: whom the socket is connected to. The socket itself forgets it once the other side has cut the connection.
  link(boost::asio::ip::tcp::socket socket, const boost::asio::ip::tcp::endpoint& other,
       boost::asio::ssl::context& tls);

  tls_stream& stream() { return stream_; }
  const std::string& address() const { return address_; } ///< the other side's, for messages
  /// This side's address where the two differ, so that the way leads to another host; else empty.
  const std::string& way_out() const { return way_out_; }

  /// Starts reading; only these kinds of frames may come.
  void open(events handlers, std::initializer_list<frame_kind> acceptable);
  /// From the next frame on. Empty handlers: what comes is dropped.
  void change(events handlers, std::initializer_list<frame_kind> acceptable);

  /// Queues an encoded frame. Dropped when the connection is over.
  void send(std::shared_ptr<const std::string> bytes);
  /// Sends what is queued, then says that no more comes, and closes when the other side does so too. No events after.
  void finish();
  /// Closes now; no events after.
  void cut();
  bool is_open() const { return stream_.lowest_layer().is_open(); }

private:
  void read();
  void on_read(const boost::system::error_code& failed, std::size_t bytes);
  void write();
  void end(const std::function<void()>& event);

  tls_stream stream_;
  std::string address_;
  std::string way_out_;
  events handlers_;
  frame_reader reader_{};
  std::array<char, 65536> bytes_{};
  std::deque<std::shared_ptr<const std::string>> queue_;
  bool writing_ = false;
  bool finishing_ = false;
};

} // namespace penstock::transport
