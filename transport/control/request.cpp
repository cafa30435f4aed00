// The side that asks: one connection, one request, one answer.
#include "transport/control/request.hpp"

#include "kernels/check.hpp"
#include "transport/control/door.hpp"
#include "transport/control/reach.hpp"
#include "transport/control/words.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <optional>

namespace penstock::transport {

namespace {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

constexpr auto look = std::chrono::milliseconds(200);

// One try at each of the addresses: nobody starts a run and asks it at the same moment.
std::shared_ptr<link> reach_port(reach& from, const launch& where) {
  std::string first;
  for (const auto& address : ways_to_rank_0(from.network, where)) {
    if (auto line = from.connect(address)) return line;
    if (first.empty()) first = from.why;
  }
  throw error("[control] no run can be asked at " + first);
}

struct hearing {
  std::optional<request_answer> answer;
  std::string news;
  std::string garbage;
  clock::time_point last = clock::now();
  bool has_news = false;
  bool is_closed = false;
};

std::shared_ptr<const std::string> bytes_of(const frame& f) {
  return std::make_shared<const std::string>(encode(f));
}

void hear(const std::shared_ptr<hearing>& heard, const frame& f) {
  if (f.kind == frame_kind::pulse) {
    heard->news = one_line(f.payload, max_text_bytes);
    heard->has_news = true;
  } else if (!heard->answer) {
    const bool is_granted = f.kind == frame_kind::message && f.name == "granted";
    heard->answer = request_answer{is_granted, one_line(f.payload, max_text_bytes)};
  }
}

} // namespace

request_answer ask(const launch& where, const job_secret& secret, const request& what, const asking_options& options) {
  check(what.topic.size() <= max_name_bytes, "a topic of a request is a word");
  if (what.body.size() > most_request_bytes)
    throw usage_error("the request has " + std::to_string(what.body.size()) + " bytes, wanted at most " +
                      std::to_string(most_request_bytes));
  asio::io_context network;
  const auto work = asio::make_work_guard(network);
  auto tls = make_tls_context(secret, tls_side::client);
  reach from{network, tls, clock::now() + options.reach, "the control port", ""};
  const auto line = reach_port(from, where);
  const auto heard = std::make_shared<hearing>();
  line->open({.on_frame = [heard](const frame& f) { hear(heard, f); },
              .on_bytes = [heard] { heard->last = clock::now(); },
              .on_closed = [heard] { heard->is_closed = true; },
              .on_garbage = [heard](const std::string& why) { heard->garbage = why; }},
             {frame_kind::message, frame_kind::refused, frame_kind::pulse});
  line->send(bytes_of({.kind = frame_kind::hello, .payload = std::string(request_greeting)}));
  line->send(bytes_of({.kind = frame_kind::message, .name = what.topic, .payload = what.body}));
  const auto end = clock::now() + options.patience;
  const auto give_up = [&](const std::string& why) {
    line->cut();
    throw error("[control] " + line->address() + " " + why);
  };
  while (!heard->answer) {
    const auto now = clock::now();
    if (heard->is_closed) give_up("has closed the connection without an answer");
    if (!heard->garbage.empty()) give_up("sent " + heard->garbage);
    if (now >= end) give_up("has not answered within " + text_of(options.patience) + "; the request stands");
    if (now - heard->last >= options.silence)
      give_up("has said nothing for " + text_of(options.silence) + "; whether the request stands is not known");
    network.run_one_until(std::min(end, now + look));
    if (std::exchange(heard->has_news, false) && options.on_news) options.on_news(heard->news);
  }
  line->cut();
  return *heard->answer;
}

} // namespace penstock::transport
