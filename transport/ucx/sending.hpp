// The sending half of a UCX endpoint: messages become active messages.
#pragma once

#include "transport/peer_book.hpp"
#include "transport/ucx/wire.hpp"
#include "transport/ucx/worker.hpp"

#include <deque>
#include <span>
#include <unordered_map>

namespace penstock::transport {

/// The identifier under which all messages of ours travel.
inline constexpr unsigned am_id = 1;

/// Belongs to the network's thread. Must outlive the workers it sends through: UCX reads from what is under way.
class sending {
public:
  /// Told, also in the middle of a call of UCX, that a connection is of no use any more.
  using failure = std::function<void(int peer, const std::string& what)>;
  /// Why something posted may not have left, if so.
  using flushed = std::function<void(std::optional<std::string> failure)>;

  sending(peer_book& book, const wire_rules& rules, failure on_failure);
  ~sending();
  sending(const sending&) = delete;
  sending& operator=(const sending&) = delete;

  /// `piece_bytes`: parts go in pieces of that size, a few at a time; 0: whole, and UCX chooses how.
  void connect(int peer, ucp_ep_h connection, std::size_t max_header, std::size_t piece_bytes);
  /// Sends a hello or a welcome.
  void greet(int peer, wire_kind kind);
  /// Sends a message that the book knows as posted.
  void start(int peer, channel to, message m, endpoint::completion sent);
  /// Hands UCX the next piece for each peer that has room for one; false when there was none. Whoever makes progress
  /// calls it between two looks at what came in, so that neither direction waits for the other.
  bool send_next_pieces();
  /// Calls back when UCX has handed over all that was sent to peers that are not lost.
  void flush(flushed done);

  /// Ends what is under way to a peer, for those who wait for it; UCX may go on reading the bytes.
  void drop(int peer, const std::string& why);

private:
  struct posting;
  struct line {
    ucp_ep_h connection = nullptr;
    std::size_t max_header = 0;
    std::size_t piece_bytes = 0;
    std::deque<posting*> waiting{}; // in the order sent; the first has pieces left
    std::size_t with_ucx = 0;       // pieces
    std::size_t pieces_of(std::size_t bytes) const {
      return piece_bytes == 0 || bytes == 0 ? 1 : (bytes + piece_bytes - 1) / piece_bytes;
    }
  };
  using payload = std::span<const std::byte>;
  struct flush_group;
  struct flush_request;

  posting& add(int peer);
  void cut(posting& p, channel to);
  void send_all(posting& p);
  void send_am(posting& p, const std::byte* header, std::size_t header_bytes, payload bytes, unsigned flags);
  void sent_one(posting& p, ucs_status_t status);
  void finish_one(posting& p, ucs_status_t status);
  void settle(posting& p);
  static void on_sent(void* request, ucs_status_t status, void* p);
  static void on_flushed(void* request, ucs_status_t status, void* f);

  peer_book& book_;
  const wire_rules rules_;
  const failure on_failure_;
  std::vector<line> lines_; // by rank
  std::uint64_t next_message_ = 0;
  std::unordered_map<posting*, std::unique_ptr<posting>> under_way_;
  std::unordered_map<flush_request*, std::unique_ptr<flush_request>> flushing_;
};

} // namespace penstock::transport
