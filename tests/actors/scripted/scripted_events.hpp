// Everything that may happen next in a scripted run: mailboxes and streams in order, the network in none.
#pragma once

#include "tests/actors/scripted/script.hpp"

#include <deque>
#include <map>
#include <string>

namespace penstock::testing {

struct scripted_event {
  std::string what;
  std::function<void()> run;
  bool may_overtake = false; ///< others of its queue that may, too
  std::size_t age = 0;       ///< the oldest has the least
};

class scripted_events {
public:
  explicit scripted_events(script& choices) : choices_(choices) {}

  /// To the end of a queue of a rank; a bag gives its events in any order.
  void post(int rank, const std::string& queue, scripted_event e, bool is_bag = false);
  /// Ahead of its last event.
  void post_before_last(int rank, const std::string& queue, scripted_event e);
  /// Nothing of that rank happens any more.
  void lose(int rank) { lost_[rank] = true; }
  bool is_lost(int rank) const { return lost_.contains(rank); }
  /// One of them happens; false: there is none. `log` may be null.
  bool happen(std::vector<std::string>* log);

private:
  struct queue {
    int rank = 0;
    bool is_bag = false;
    std::deque<scripted_event> events;
  };
  queue& at(int rank, const std::string& name);
  std::ptrdiff_t choose_from(const queue& q);

  script& choices_;
  std::map<std::string, queue> queues_; // by rank and name
  std::map<int, bool> lost_;
  std::size_t posted_ = 0;
};

} // namespace penstock::testing
