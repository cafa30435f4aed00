// Connects, proves, says hello and hears the answer, one after the other, again and again.
#include "transport/control/connect.hpp"

#include "kernels/check.hpp"
#include "transport/control/door.hpp"
#include "transport/control/reach.hpp"
#include "transport/control/verdict.hpp"
#include "transport/control/words.hpp"

#include <algorithm>
#include <optional>
#include <thread>

namespace penstock::transport {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

using clock = std::chrono::steady_clock;

constexpr auto first_pause = 20ms;
constexpr auto longest_pause = 250ms;
constexpr auto names_bound = 10s; // for whoever knows the names of hosts

/// Nothing: try again, `from.why` says what happened.
std::optional<admitted_line> greet(reach& from, const hello& own, const std::shared_ptr<link>& line) {
  // Kept alive by the line's events, which go on until others replace them.
  struct hearing {
    std::vector<frame> frames;
    std::string garbage;
    bool closed = false;
  };
  const auto heard = std::make_shared<hearing>();
  line->open({.on_frame = [heard](frame f) { heard->frames.push_back(std::move(f)); },
              .on_closed = [heard] { heard->closed = true; },
              .on_garbage = [heard](const std::string& what) { heard->garbage = what; }},
             {frame_kind::admitted, frame_kind::refused, frame_kind::too_early, frame_kind::failed, frame_kind::lost,
              frame_kind::welcome, frame_kind::blob, frame_kind::message, frame_kind::pulse, frame_kind::all_left});
  line->send(std::make_shared<const std::string>(encode(frame{.kind = frame_kind::hello, .payload = encode(own)})));
  while (heard->frames.empty() && !heard->closed && heard->garbage.empty() && clock::now() < from.deadline)
    from.network.run_one_until(from.deadline);
  if (!heard->garbage.empty()) throw error("[control] rank 0 at " + line->address() + " sent " + heard->garbage);
  if (heard->frames.empty()) {
    from.why = heard->closed ? "the connection was closed" : "no answer to the hello";
    line->cut();
    return {};
  }
  const auto answer = std::move(heard->frames.front());
  heard->frames.erase(heard->frames.begin());
  if (answer.kind == frame_kind::admitted)
    return admitted_line{line, decode_admission(answer.payload), {heard, &heard->frames}};
  line->cut();
  if (answer.kind == frame_kind::failed || answer.kind == frame_kind::lost) throw job_failed(failure_of(answer));
  if (answer.kind == frame_kind::too_early) {
    from.why = "it still belongs to the job before";
    return {};
  }
  throw error("[control] rank 0 at " + line->address() + " refuses this process: " + answer.payload);
}

} // namespace

admitted_line connect_to_rank_0(asio::io_context& network, asio::ssl::context& tls, const launch& where,
                                const hello& own, std::chrono::milliseconds deadline) {
  const auto begun = clock::now();
  reach next{network, tls, begun + deadline, "rank 0", ""};
  for (auto pause = std::chrono::milliseconds(first_pause);;
       pause = std::min<std::chrono::milliseconds>(2 * pause, longest_pause)) {
    try {
      std::string first; // the likeliest way's reason says most
      for (const auto& address : ways_to_rank_0(network, where)) {
        if (const auto line = next.connect(address))
          if (auto admitted = greet(next, own, line)) return *admitted;
        if (first.empty()) first = next.why;
      }
      next.why = first;
    } catch (const host_unknown& e) {
      if (!e.may_come() || clock::now() - begun >= names_bound) throw;
      next.why = e.what();
    }
    if (clock::now() + pause >= next.deadline)
      throw error("[control] rank " + std::to_string(own.rank) + " has not reached rank 0 at " + where.master + ":" +
                  std::to_string(where.port) + " within " + text_of(deadline) + ": " + next.why);
    std::this_thread::sleep_for(pause);
  }
}

} // namespace penstock::transport
