// What travels on a control connection, and the reader that trusts no byte of it.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace penstock::transport {

/// "Up" is from a rank to rank 0, "down" the other way. The numbers are the wire's.
enum class frame_kind : std::uint8_t {
  hello = 1, ///< up, the first: who this is (control/hello.hpp)
  admitted,  ///< down, the answer: rank 0's settings
  refused,   ///< down, the answer: why this process is not in the job
  welcome,   ///< down: all ranks are there; the members
  blob,      ///< up: one rank's blob under a name; down to all others, with its rank
  message,   ///< up with the receiver's rank, down with the sender's; the name is the topic
  pulse,     ///< both: still there, and doing this
  failed,    ///< up: this rank cannot go on; down: the first cause, which a rank reported by itself
  lost,      ///< up: rank 0 seems gone; down: the first cause, a rank that is gone or silent
  suspect,   ///< up: the data connection to that rank broke
  leave,     ///< up: the job is over for this rank
  all_left,  ///< down: it is over for all
  ping,      ///< up: what does your clock say?
  pong,      ///< down: the answer
  too_early, ///< down, the answer: this is still rank 0 of the job before; it will be another's soon
};
inline constexpr int frame_kinds = 15;

/// One frame. Fields that a kind has no use for are left as they are here.
struct frame {
  frame_kind kind{};
  int rank = -1;
  std::int64_t sent_ns = 0;     ///< ping, pong: the asking rank's clock
  std::int64_t answered_ns = 0; ///< pong: rank 0's clock
  std::string name;             ///< blob, message; lost, down: also_lost (control/verdict.hpp)
  std::string payload;
};

inline constexpr std::size_t max_name_bytes = 255;
inline constexpr std::size_t max_payload_bytes = std::size_t{64} << 20; ///< blobs and messages
inline constexpr std::size_t max_text_bytes = 4096;                     ///< what a rank is doing, why it failed

/// The most payload that a frame of this kind may have.
std::size_t payload_limit(frame_kind kind);

/// The frame's bytes. Names and payloads must keep to the limits (check()).
std::string encode(const frame& f);

/// Puts frames together from bytes as they come. What a frame's head claims is checked before anything is allocated
/// for it. Used by one thread.
class frame_reader {
public:
  /// Only these kinds may come.
  explicit frame_reader(std::initializer_list<frame_kind> acceptable) { accept(acceptable); }
  void accept(std::initializer_list<frame_kind> acceptable);

  /// Calls `take` for each frame that is now whole. Throws error for bytes that are no acceptable frame; the connection
  /// is of no use after that. `take` may call accept(), which holds for the frames after.
  void feed(std::string_view bytes, const std::function<void(frame)>& take);

private:
  std::uint32_t acceptable_ = 0;
  std::string head_;       // until it is whole
  std::string body_;       // what has come of the current frame
  std::size_t wanted_ = 0; // bytes of the current body; 0: its head is not whole
};

} // namespace penstock::transport
