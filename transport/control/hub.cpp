// Routing, and the first cause.
#include "transport/control/hub.hpp"

#include "kernels/check.hpp"
#include "transport/control/verdict.hpp"
#include "transport/control/words.hpp"

#include <algorithm>

namespace penstock::transport {

namespace {

std::string rank_text(int rank) {
  return "rank " + std::to_string(rank);
}

frame refusal(const std::string& why) {
  return {.kind = frame_kind::refused, .payload = one_line(why, max_text_bytes)};
}

} // namespace

hub::hub(hub_options options, hello own, time now, sender send)
    : options_(options), own_(std::move(own)), begun_(now), next_pulse_(now), send_(std::move(send)),
      watch_(options.silence.value_or(0ms)), ranks_(static_cast<std::size_t>(own_.size)) {
  check(own_.rank == 0 && own_.size > 0, "the hub is at rank 0");
  ranks_[0].met = ranks_[0].admitted = true;
  ranks_[0].who = own_.who;
}

std::string hub::name_of(int rank, bool with_process) const {
  const auto& who = ranks_[static_cast<std::size_t>(rank)].who;
  return rank_text(rank) + " (host " + who.host + (with_process ? ", process " + std::to_string(who.process) : "") +
         ")";
}

std::string hub::was_doing(int rank) const {
  const auto& doing = ranks_[static_cast<std::size_t>(rank)].doing;
  return doing.empty() ? "" : "; it was " + doing;
}

std::vector<int> hub::joined_but(int rank) const {
  std::vector<int> found;
  for (int r = 0; r < own_.size; ++r) {
    if (r != rank && ranks_[static_cast<std::size_t>(r)].joined) found.push_back(r);
  }
  return found;
}

hub::answer hub::meet(const hello& h, time now) {
  if (h.protocol != control_protocol)
    return {refusal("it speaks control protocol " + std::to_string(h.protocol) + ", rank 0 speaks " +
                    std::to_string(control_protocol) + ": the binaries differ")};
  if (h.generation > own_.generation) return {{.kind = frame_kind::too_early}};
  if (h.generation < own_.generation)
    return {refusal("it is a process of the job before ranks were lost, which has gone on without it")};
  if (h.rank < 0 || h.rank >= own_.size)
    return {refusal("there is no " + rank_text(h.rank) + " in a job of " + std::to_string(own_.size) + " ranks")};
  auto& state = ranks_[static_cast<std::size_t>(h.rank)];
  if (state.admitted)
    return {refusal(rank_text(h.rank) + " is taken by process " + std::to_string(state.who.process) + " on " +
                    state.who.host + ": two ranks with one id")};
  state.met = true;
  if (!verdict_ && !all_left_) {
    state.who = h.who;
    if (const auto difference = differing_fact(own_, h)) decide(h.rank, frame_kind::failed, *difference);
  }
  if (verdict_) return {frame_of(*verdict_)};
  if (all_left_) return {refusal("the job is over")};
  state.admitted = true;
  watch_.heard(h.rank, now);
  return {{.kind = frame_kind::admitted,
           .payload = encode(admission{.rank_0 = own_.who, .silence = options_.silence.value_or(5s)})},
          true};
}

void hub::seated(int rank) {
  ranks_[static_cast<std::size_t>(rank)].joined = true;
  if (!std::ranges::all_of(ranks_, &rank_state::joined)) return;
  welcomed_ = true;
  std::vector<member> members;
  for (const auto& r : ranks_)
    members.push_back(r.who);
  send_(joined_but(-1), {.kind = frame_kind::welcome, .payload = encode(members)});
}

bool hub::all_met() const {
  return std::ranges::all_of(ranks_, &rank_state::met);
}

void hub::heard(int rank, time now) {
  const auto& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.joined && !state.left) watch_.heard(rank, now);
}

void hub::take(int from, frame f, time now) {
  if (verdict_ || all_left_) return;
  auto& state = ranks_[static_cast<std::size_t>(from)];
  switch (f.kind) {
  case frame_kind::blob:
    f.rank = from;
    send_(joined_but(from), f);
    return;
  case frame_kind::message: {
    const int to = f.rank;
    if (to < 0 || to >= own_.size) return broken(from, "a message to " + rank_text(to));
    f.rank = from;
    send_({to}, f);
    return;
  }
  case frame_kind::pulse:
    state.doing = one_line(f.payload, max_text_bytes);
    return;
  case frame_kind::failed:
    return decide(from, f.kind, name_of(from, false) + ": " + f.payload);
  case frame_kind::lost:
    return decide(0, f.kind, f.payload);
  case frame_kind::suspect:
    return suspect(from, f.rank, f.payload, now);
  case frame_kind::leave:
    return leave(from);
  case frame_kind::ping:
    send_({from}, {.kind = frame_kind::pong,
                   .sent_ns = f.sent_ns,
                   .answered_ns = std::chrono::nanoseconds(now.time_since_epoch()).count()});
    return;
  default:
    return broken(from, "a frame of kind " + std::to_string(static_cast<int>(f.kind)));
  }
}

void hub::closed(int rank, time) {
  auto& state = ranks_[static_cast<std::size_t>(rank)];
  watch_.forget(rank);
  if (!state.left) decide(rank, frame_kind::lost, name_of(rank, true) + " ended without a word" + was_doing(rank));
  state.joined = false;
}

void hub::broken(int rank, const std::string& why) {
  decide(rank, frame_kind::failed, name_of(rank, true) + " sent what is no part of the control protocol: " + why);
}

void hub::decide(int rank, frame_kind how, std::string text, std::vector<int> also_lost) {
  if (verdict_ || all_left_) return;
  verdict_ = job_failure{.rank = rank,
                         .lost = how == frame_kind::lost,
                         .text = one_line(text, max_text_bytes),
                         .also_lost = std::move(also_lost)};
  send_(joined_but(-1), frame_of(*verdict_));
}

void hub::leave(int rank) {
  auto& state = ranks_[static_cast<std::size_t>(rank)];
  state.left = true;
  watch_.forget(rank);
  std::erase_if(suspicions_, [rank](const auto& s) { return s.peer == rank; });
  all_left_ = std::ranges::all_of(ranks_, &rank_state::left);
  if (all_left_) send_(joined_but(-1), {.kind = frame_kind::all_left});
}

void hub::suspect(int by, int peer, const std::string& what, time now) {
  if (peer < 0 || peer >= own_.size || peer == by) return broken(by, "a suspicion against " + rank_text(peer));
  // A rank that has left waits for the others in good order; its data connections are of no account any more.
  if (ranks_[static_cast<std::size_t>(peer)].left) return;
  suspicions_.push_back({now + options_.patience, by, peer, what});
}

std::optional<hub::time> hub::next_suspicion() const {
  if (verdict_ || all_left_ || suspicions_.empty()) return {};
  return suspicions_.front().due; // all wait equally long
}

void hub::blame_suspects(time now) {
  if (suspicions_.empty() || suspicions_.front().due > now) return;
  const auto& s = suspicions_.front();
  const auto& doing = ranks_[static_cast<std::size_t>(s.peer)].doing;
  decide(s.peer, frame_kind::lost,
         "the data connection from " + rank_text(s.by) + " to " + name_of(s.peer, false) + " broke: " + s.what +
             (doing.empty() ? "" : "; " + rank_text(s.peer) + " was " + doing));
}

void hub::give_up_joining() {
  std::string names;
  std::vector<int> missing;
  for (int r = 0; r < own_.size; ++r) {
    if (ranks_[static_cast<std::size_t>(r)].joined) continue;
    names += (missing.empty() ? "" : ", ") + std::to_string(r);
    missing.push_back(r);
  }
  const int first = missing.front();
  missing.erase(missing.begin());
  auto text = (missing.empty() ? "rank " : "ranks ") + names + " never came: " + std::to_string(joined_but(-1).size()) +
              " of " + std::to_string(own_.size) + " ranks were there after " + text_of(options_.join_deadline) +
              (last_refusal_.empty() ? "" : "; last turned away: " + last_refusal_);
  decide(first, frame_kind::lost, std::move(text), std::move(missing));
}

void hub::tick(time now) {
  if (verdict_ || all_left_) return;
  if (options_.silence) {
    if (auto silent = watch_.silent(now); !silent.empty()) {
      const int rank = silent.front();
      silent.erase(silent.begin());
      decide(rank, frame_kind::lost,
             name_of(rank, true) + " has said nothing for " + text_of(*options_.silence) + was_doing(rank),
             std::move(silent));
    }
    if (now >= next_pulse_ || told_ != ranks_[0].doing) {
      told_ = ranks_[0].doing;
      send_(joined_but(0), {.kind = frame_kind::pulse, .rank = 0, .payload = told_});
      next_pulse_ = now + *options_.silence / 10;
    }
  }
  blame_suspects(now);
  if (!welcomed_ && now - begun_ >= options_.join_deadline) give_up_joining();
}

} // namespace penstock::transport
