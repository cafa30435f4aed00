// Reading and writing frames over one TLS connection.
#include "transport/control/link.hpp"

#include "kernels/check.hpp"
#include "transport/control/door.hpp"
#include "transport/launch/host.hpp"

#include <boost/asio/write.hpp>

namespace penstock::transport {

namespace asio = boost::asio;
using boost::system::error_code;

link::link(asio::ip::tcp::socket socket, const asio::ip::tcp::endpoint& other, asio::ssl::context& tls)
    : stream_(std::move(socket), tls), address_(text_of(other)) {
  error_code ignored;
  stream_.next_layer().set_option(asio::ip::tcp::no_delay(true), ignored);
  const auto own = stream_.next_layer().local_endpoint(ignored);
  if (own.address() != other.address() && !is_loopback_name(address_of(own))) way_out_ = address_of(own);
}

void link::open(events handlers, std::initializer_list<frame_kind> acceptable) {
  change(std::move(handlers), acceptable);
  read();
}

void link::change(events handlers, std::initializer_list<frame_kind> acceptable) {
  handlers_ = std::move(handlers);
  reader_.accept(acceptable);
}

void link::read() {
  stream_.async_read_some(asio::buffer(bytes_), [self = shared_from_this()](const error_code& failed, std::size_t n) {
    self->on_read(failed, n);
  });
}

void link::on_read(const error_code& failed, std::size_t bytes) {
  if (!is_open()) return;
  if (failed) return end(handlers_.on_closed);
  if (handlers_.on_bytes) handlers_.on_bytes();
  if (!finishing_) {
    try {
      reader_.feed({bytes_.data(), bytes}, [this](frame f) {
        const auto take = handlers_.on_frame; // a copy: it may call change()
        if (take) take(std::move(f));
      });
    } catch (const error& e) {
      return end([garbage = handlers_.on_garbage, why = std::string(e.what())] {
        if (garbage) garbage(why);
      });
    }
  }
  if (is_open()) read();
}

void link::send(std::shared_ptr<const std::string> bytes) {
  if (!is_open() || finishing_) return;
  queue_.push_back(std::move(bytes));
  write();
}

void link::write() {
  if (writing_) return;
  if (queue_.empty()) {
    error_code ignored;
    if (finishing_) stream_.next_layer().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    return;
  }
  writing_ = true;
  asio::async_write(stream_, asio::buffer(*queue_.front()),
                    [self = shared_from_this()](const error_code& failed, std::size_t) {
                      self->writing_ = false;
                      if (!self->is_open()) return;
                      self->queue_.pop_front();
                      // A peer that is gone is found by reading, after what it has still said.
                      if (failed) self->queue_.clear();
                      self->write();
                    });
}

void link::finish() {
  if (!is_open() || finishing_) return;
  finishing_ = true;
  handlers_ = {};
  write();
}

void link::cut() {
  handlers_ = {};
  queue_.clear();
  error_code ignored;
  stream_.next_layer().close(ignored);
}

void link::end(const std::function<void()>& event) {
  const auto last = event; // a copy: cut() drops the handlers
  cut();
  if (last) last();
}

} // namespace penstock::transport
