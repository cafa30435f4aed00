// Rank 0's rules: who belongs to the job, what goes to whom, and what failed first. No socket, no thread, no clock.
#pragma once

#include "transport/control/control_plane.hpp"
#include "transport/control/frame.hpp"
#include "transport/control/hello.hpp"
#include "transport/control/silence_watch.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace penstock::transport {

struct hub_options {
  /// Silence after which a rank is lost; pulses go out ten times as often, and when there is news. Nothing: not
  /// watched.
  std::optional<std::chrono::milliseconds> silence;
  std::chrono::milliseconds join_deadline = 10s; ///< from the hub's making until all ranks are there
  std::chrono::milliseconds patience = 300ms;    ///< how long a suspicion waits for something better to be known
};

/// All ranks' frames pass here, rank 0's own included. The first cause of failure is decided here and nowhere else:
/// once it stands, it is told to all and everything after it is dropped. Not thread-safe; `now` never goes back.
class hub {
public:
  using time = std::chrono::steady_clock::time_point;
  using sender = std::function<void(const std::vector<int>& to, const frame& what)>;

  /// `own` is rank 0's hello. `send` is called within the functions below and must not call back.
  hub(hub_options options, hello own, time now, sender send);

  struct answer {
    frame reply;
    bool admitted = false; ///< from now on the caller passes on what this rank sends
  };
  /// A process that knows the secret says who it is. Facts that differ from rank 0's fail the job; a rank that is
  /// taken, does not exist or is of another generation is only refused. After answering an admitted rank the caller
  /// calls seated().
  answer meet(const hello& h, time now);
  /// The answer to an admitted rank is on its way, so other frames may follow it.
  void seated(int rank);

  void heard(int rank, time now);                ///< bytes of any kind have come
  void take(int from, frame f, time now);        ///< from an admitted rank
  void closed(int rank, time now);               ///< its connection ended, and not by us
  void broken(int rank, const std::string& why); ///< it sent what is no frame
  /// A stranger was turned away at the door, which may be why a rank does not come.
  void turned_away(std::string why) { last_refusal_ = std::move(why); }
  void tick(time now); ///< to be called a few times in each tenth of the silence

  std::optional<time> next_suspicion() const; ///< when a suspicion becomes a verdict, if nothing else happens
  bool all_met() const;                       ///< every rank has come and was answered, whatever the answer
  bool over() const { return all_left_; }
  const std::optional<job_failure>& verdict() const { return verdict_; }

private:
  struct rank_state {
    bool met = false;      // it has been answered, whatever the answer
    bool admitted = false; // its number is taken
    bool joined = false;   // frames may go to it
    bool left = false;
    member who;
    std::string doing;
  };
  struct suspicion {
    time due;
    int by = 0;
    int peer = 0;
    std::string what;
  };

  std::string name_of(int rank, bool with_process) const;
  std::string was_doing(int rank) const;
  std::vector<int> joined_but(int rank) const;
  void decide(int rank, frame_kind how, std::string text, std::vector<int> also_lost = {});
  void leave(int rank);
  void suspect(int by, int peer, const std::string& what, time now);
  void blame_suspects(time now);
  void give_up_joining();

  hub_options options_;
  hello own_;
  time begun_;
  time next_pulse_;
  sender send_;
  silence_watch watch_;
  std::vector<rank_state> ranks_;
  std::vector<suspicion> suspicions_;
  std::string told_; // what rank 0 was doing when it last pulsed
  std::string last_refusal_;
  bool welcomed_ = false; // all ranks have joined
  bool all_left_ = false;
  std::optional<job_failure> verdict_;
};

} // namespace penstock::transport
