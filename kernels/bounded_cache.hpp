// Keeps what is dear to make, the most recently used so many of them.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

namespace penstock {

/// From keys to shared entries, never more than `most` of them: the one that was not asked for the longest goes. Who
/// was given an entry may keep it. For one thread.
template <class Key, class Entry, class Hash>
class bounded_cache {
public:
  explicit bounded_cache(std::size_t most) : most_(most) {}

  /// The entry of that key; make() -> std::shared_ptr<Entry> is called where there is none. What it throws goes through
  /// and leaves nothing behind.
  template <class Make>
  std::shared_ptr<Entry> find_or_make(const Key& key, Make&& make) {
    if (!entries_.empty() && entries_.front().first == key) return entries_.front().second; // asked for again and again
    if (const auto found = places_.find(key); found != places_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
    std::shared_ptr<Entry> made = make();
    if (most_ == 0) return made;
    while (entries_.size() >= most_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, made);
    places_.emplace(key, entries_.begin());
    return made;
  }

  std::size_t size() const { return entries_.size(); }

private:
  using entry_list = std::list<std::pair<Key, std::shared_ptr<Entry>>>; // most recently used first

  std::size_t most_;
  entry_list entries_;
  std::unordered_map<Key, typename entry_list::iterator, Hash> places_;
};

} // namespace penstock
