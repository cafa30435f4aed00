// All-reduce by shares: summed by their owner in member order, then sent to all.
#include "kernels/check.hpp"
#include "transport/collectives.hpp"
#include "transport/member_sum.hpp"
#include "transport/share_header.hpp"
#include "transport/shares.hpp"
#include "transport/task_thread.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

// Why a result may be written over a contribution. Both may be the same bytes, and our contribution may still be in the
// send queue while results arrive. Shares are disjoint, and an owner sends the sum of a share only after it has
// received every contribution to it: by the time that the sum is written over ours, the owner has read all of ours. Our
// endpoint may report that send later still (a rendezvous is acknowledged last), but it reads nothing any more. And our
// own share is sent to nobody before it is summed.

namespace penstock::transport {

namespace {

std::exception_ptr disagreement(std::uint64_t key, const std::string& who, std::size_t bytes, std::size_t others) {
  return std::make_exception_ptr(error("[transport.all_reduce] bucket " + std::to_string(key) + " has " +
                                       std::to_string(bytes) + " bytes on " + who + ", " + std::to_string(others) +
                                       " bytes on another rank"));
}

/// A share of one slice as a member contributes it; nullopt: it contributes nothing.
using contribution = std::optional<std::vector<part>>;

/// One use of a key on this rank. Until it is started it only collects what other ranks contribute.
struct bucket {
  bucket(std::uint64_t k, std::size_t size) : key(k), bytes(size) {}

  const std::uint64_t key;
  std::size_t bytes; // as the first to speak of it says
  bool is_started = false;
  bool is_forgotten = false; // what is under way for it ends quietly
  // Set by start(), constant from then on: the thread reads them without the lock.
  std::vector<byte_run> mine; // by member of this rank; empty: contributes nothing
  byte_run result;

  all_reduce::completion done;
  std::map<std::uint64_t, std::map<std::size_t, contribution>> arrived; // by slice and member; gone when summed
  std::map<std::size_t, std::uint64_t> received;                        // slices by member
  std::uint64_t sums_missing = 0;                                       // shares that `result` still lacks
  std::uint64_t sends_open = 0;
  std::shared_ptr<bucket> next; // the key's next use, by ranks that are done with this one
};
using bucket_ptr = std::shared_ptr<bucket>;

std::vector<int> distinct(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

} // namespace

struct all_reduce::implementation : std::enable_shared_from_this<implementation> {
  class contributions_inbox;
  class sums_inbox;

  implementation(endpoint& data, group g, channel base, add_elements add, std::size_t element_bytes);

  void open();
  void close();
  void start(std::uint64_t key, std::vector<std::vector<part>> contributions, std::vector<part> result,
             completion done);
  void forget_below(std::uint64_t key);

  // On the network's thread. The endpoint may outlive the all-reduce: its late calls must find a quiet end here.
  void take_contribution(int peer, message m);
  part place_sum(int peer, std::string_view header, std::size_t index, std::size_t bytes);
  void take_sum(int peer, const message& m);
  bucket& bucket_of_sum(int peer, const share_header& h);

  // On the thread of its own.
  void send_contributions(const bucket_ptr& b);
  void add_up(const bucket_ptr& b, std::uint64_t slice, std::map<std::size_t, contribution> arrived);
  void send(const bucket_ptr& b, std::size_t owner, channel to, message m);

  // With the lock held.
  void post(std::function<void()> task);
  void add_up_when_all_there(const bucket_ptr& b, std::uint64_t slice);
  void finish_when_complete(bucket& b);
  void fail(const std::exception_ptr& why);
  bool is_over() const { return is_closed || failure; }

  part scratch_part(std::size_t bytes) { return {scratch.allocate(bytes, memory_use::scratch), 0, bytes}; }

  endpoint& data; // not used by the network's thread
  const int rank;
  const group members;
  const channel contributions_channel;
  const channel sums_channel;
  const std::size_t element_bytes;
  const std::vector<int> owners; // ranks
  const share_cutter cutter;
  std::size_t me = 0; // among the owners
  std::size_t my_members = 0;
  memory_pool scratch;
  member_sum sum; // the thread's

  std::mutex mutex; // guards what follows
  std::map<std::uint64_t, bucket_ptr> buckets;
  std::uint64_t first_wanted = 0; // buckets with smaller keys are forgotten
  std::exception_ptr failure;     // the first one ends all buckets, those to come included
  bool is_closed = false;

  task_thread thread{"all-reduce"}; // last: nothing above may go while it runs
};

class all_reduce::implementation::contributions_inbox final : public receiver {
public:
  explicit contributions_inbox(std::shared_ptr<implementation> owner) : owner_(std::move(owner)) {}
  part place(int, std::string_view, std::size_t, std::size_t bytes) override { return owner_->scratch_part(bytes); }
  void take(int peer, message m) override { owner_->take_contribution(peer, std::move(m)); }

private:
  std::shared_ptr<implementation> owner_;
};

class all_reduce::implementation::sums_inbox final : public receiver {
public:
  explicit sums_inbox(std::shared_ptr<implementation> owner) : owner_(std::move(owner)) {}
  part place(int peer, std::string_view header, std::size_t index, std::size_t bytes) override {
    return owner_->place_sum(peer, header, index, bytes);
  }
  void take(int peer, message m) override { owner_->take_sum(peer, m); }

private:
  std::shared_ptr<implementation> owner_;
};

all_reduce::implementation::implementation(endpoint& e, group g, channel base, add_elements add, std::size_t size)
    : data(e), rank(e.rank()), members(std::move(g)),
      contributions_channel(base), sums_channel{static_cast<std::uint64_t>(base) + 1}, element_bytes(size),
      owners(distinct(members.rank_of)), cutter(owners.size(), size), sum(std::move(add), size, scratch) {
  const auto mine = std::find(owners.begin(), owners.end(), rank);
  check(mine != owners.end(), "[transport.all_reduce] this rank holds no member of the group");
  me = static_cast<std::size_t>(mine - owners.begin());
  my_members = static_cast<std::size_t>(std::count(members.rank_of.begin(), members.rank_of.end(), rank));
}

void all_reduce::implementation::open() {
  data.listen(contributions_channel, std::make_shared<contributions_inbox>(shared_from_this()));
  data.listen(sums_channel, std::make_shared<sums_inbox>(shared_from_this()));
}

void all_reduce::implementation::close() {
  data.listen(contributions_channel, nullptr);
  data.listen(sums_channel, nullptr);
  thread.stop();
  std::map<std::uint64_t, bucket_ptr> dropped;
  {
    const std::lock_guard lock(mutex);
    is_closed = true; // from here on nobody looks into a bucket
    dropped.swap(buckets);
  }
  // What is under way may hold a bucket for long; the user's things in it go now.
  for (auto& [key, b] : dropped) {
    b->done = nullptr;
    b->mine.clear();
    b->result = {};
  }
}

void all_reduce::implementation::start(std::uint64_t key, std::vector<std::vector<part>> contributions,
                                       std::vector<part> result, completion done) {
  check(contributions.size() == my_members, "[transport.all_reduce] wanted one list of parts for each member here");
  byte_run to(std::move(result));
  std::vector<byte_run> from;
  for (auto& parts : contributions)
    from.emplace_back(std::move(parts));
  check(to.holds_whole(element_bytes), "[transport.all_reduce] a part of the result ends within an element");
  for (const byte_run& c : from)
    check(c.empty() || c.cut_alike(to), "[transport.all_reduce] a contribution and the result differ in their parts");

  const std::lock_guard lock(mutex);
  if (failure) {
    post([done = std::move(done), why = failure] { done(why); });
    return;
  }
  check(key >= first_wanted, "[transport.all_reduce] this bucket's key has been forgotten");
  bucket_ptr& b = buckets[key];
  if (!b) b = std::make_shared<bucket>(key, to.size());
  check(!b->is_started, "[transport.all_reduce] this bucket's key is in use");
  b->is_started = true;
  b->done = std::move(done);
  b->mine = std::move(from);
  b->result = std::move(to);
  const std::size_t announced = std::exchange(b->bytes, b->result.size());
  post([this, b] { send_contributions(b); }); // even where ranks disagree, so that the others learn of it
  if (announced != b->bytes) {
    fail(disagreement(key, "this rank", b->bytes, announced));
    return;
  }
  for (std::size_t owner = 0; owner < owners.size(); ++owner) {
    const std::uint64_t slices = cutter.slices_of(b->bytes, owner);
    b->sums_missing += slices;
    if (owner != me) b->sends_open += slices * my_members;
  }
  for (std::uint64_t slice = 0; slice < cutter.slices_of(b->bytes, me); ++slice)
    add_up_when_all_there(b, slice);
  finish_when_complete(*b); // an empty one is, at once
}

void all_reduce::implementation::forget_below(std::uint64_t key) {
  std::vector<bucket_ptr> forgotten;
  {
    const std::lock_guard lock(mutex);
    first_wanted = std::max(first_wanted, key);
    const auto end = buckets.lower_bound(first_wanted);
    for (auto it = buckets.begin(); it != end; ++it) {
      it->second->is_forgotten = true;
      forgotten.push_back(std::move(it->second));
    }
    buckets.erase(buckets.begin(), end);
  }
  for (const auto& b : forgotten)
    b->done = nullptr; // what is under way may hold the bucket for long; this goes now, without the lock
}

void all_reduce::implementation::take_contribution(int peer, message m) {
  const share_header h = unpacked(peer, m.header);
  if (h.from >= members.rank_of.size() || members.rank_of[h.from] != peer ||
      h.slice >= cutter.slices_of(h.bucket_bytes, me))
    throw stray(peer, "the contribution of member", h);
  const std::lock_guard lock(mutex);
  if (is_over() || h.key < first_wanted) return;
  bucket_ptr* b = &buckets[h.key];
  // A rank that uses the key again has all sums of its last use, this rank's too; so all of its contributions came
  // before.
  if (*b && (*b)->received[h.from] == cutter.slices_of((*b)->bytes, me)) b = &(*b)->next;
  if (!*b) *b = std::make_shared<bucket>(h.key, h.bucket_bytes);
  if ((*b)->bytes != h.bucket_bytes) {
    fail(disagreement(h.key, "rank " + std::to_string(peer), h.bucket_bytes, (*b)->bytes));
    return;
  }
  contribution c;
  if (h.filled != 0) c = std::move(m.parts);
  if (!(*b)->arrived[h.slice].emplace(h.from, std::move(c)).second)
    throw stray(peer, "twice the contribution of member", h);
  ++(*b)->received[h.from];
  if ((*b)->is_started) add_up_when_all_there(*b, h.slice);
}

bucket& all_reduce::implementation::bucket_of_sum(int peer, const share_header& h) {
  const auto b = buckets.find(h.key);
  if (b == buckets.end() || !b->second->is_started || b->second->bytes != h.bucket_bytes || h.from >= owners.size() ||
      owners[h.from] != peer || h.slice >= cutter.slices_of(h.bucket_bytes, h.from))
    throw stray(peer, "the sum of owner", h);
  return *b->second;
}

part all_reduce::implementation::place_sum(int peer, std::string_view header, std::size_t index, std::size_t bytes) {
  const share_header h = unpacked(peer, header);
  {
    const std::lock_guard lock(mutex);
    if (!is_over() && h.key >= first_wanted) {
      const bucket& b = bucket_of_sum(peer, h);
      part p = b.result.piece(cutter.share(b.bytes, h.slice, h.from), index);
      if (p.size != bytes) throw stray(peer, "pieces of other sizes in the sum of owner", h);
      return p;
    }
  }
  return scratch_part(bytes);
}

void all_reduce::implementation::take_sum(int peer, const message& m) {
  const share_header h = unpacked(peer, m.header);
  const std::lock_guard lock(mutex);
  if (is_over() || h.key < first_wanted) return;
  bucket& b = bucket_of_sum(peer, h);
  std::size_t bytes = 0;
  for (const part& p : m.parts)
    bytes += p.size;
  if (bytes != (h.filled != 0 ? cutter.share(b.bytes, h.slice, h.from).size() : 0))
    throw stray(peer, "an incomplete sum of owner", h);
  --b.sums_missing;
  finish_when_complete(b);
}

void all_reduce::implementation::send_contributions(const bucket_ptr& b) {
  for (std::uint64_t slice = 0; slice < cutter.slices(b->bytes); ++slice)
    for (std::size_t step = 1; step < owners.size(); ++step) {
      const std::size_t owner = (me + step) % owners.size(); // not all ranks to the same one at once
      const byte_range share = cutter.share(b->bytes, slice, owner);
      if (share.empty()) continue;
      auto mine = b->mine.begin();
      for (std::size_t member = 0; member < members.rank_of.size(); ++member) {
        if (members.rank_of[member] != rank) continue;
        const share_header h{b->key, b->bytes, slice, member, mine->empty() ? 0u : 1u};
        send(b, owner, contributions_channel, packed(h, mine->cut(share)));
        ++mine;
      }
    }
}

void all_reduce::implementation::add_up(const bucket_ptr& b, std::uint64_t slice,
                                        std::map<std::size_t, contribution> arrived) {
  const byte_range share = cutter.share(b->bytes, slice, me);
  std::vector<std::vector<part>> contributions;
  auto mine = b->mine.begin();
  for (std::size_t member = 0; member < members.rank_of.size(); ++member)
    if (members.rank_of[member] != rank) {
      if (auto& c = arrived.at(member)) contributions.push_back(std::move(*c));
    } else if (const byte_run& c = *mine++; !c.empty()) {
      contributions.push_back(c.cut(share));
    }
  std::vector<part> pieces;
  if (!contributions.empty()) {
    pieces = b->result.cut(share);
    sum(pieces, contributions);
  }
  contributions.clear(); // their scratch is wanted by the next slice
  const share_header h{b->key, b->bytes, slice, me, pieces.empty() ? 0u : 1u};
  for (std::size_t step = 1; step < owners.size(); ++step)
    send(b, (me + step) % owners.size(), sums_channel, packed(h, pieces));
  const std::lock_guard lock(mutex);
  if (failure || b->is_forgotten) return;
  --b->sums_missing;
  finish_when_complete(*b);
}

void all_reduce::implementation::send(const bucket_ptr& b, std::size_t owner, channel to, message m) {
  data.send(owners[owner], to, std::move(m), [self = shared_from_this(), b](const std::exception_ptr& why) {
    const std::lock_guard lock(self->mutex);
    if (self->is_over() || b->is_forgotten) return;
    --b->sends_open;
    if (why)
      self->fail(why);
    else
      self->finish_when_complete(*b);
  });
}

void all_reduce::implementation::post(std::function<void()> task) {
  thread.post([this, task = std::move(task)] {
    try {
      task();
    } catch (...) {
      const std::lock_guard lock(mutex);
      fail(std::current_exception());
    }
  });
}

void all_reduce::implementation::add_up_when_all_there(const bucket_ptr& b, std::uint64_t slice) {
  auto& arrived = b->arrived[slice];
  if (arrived.size() + my_members < members.rank_of.size()) return;
  b->sends_open += owners.size() - 1;
  post([this, b, slice, from = std::move(arrived)]() mutable { add_up(b, slice, std::move(from)); });
  b->arrived.erase(slice);
}

void all_reduce::implementation::finish_when_complete(bucket& b) {
  if (b.sums_missing > 0 || b.sends_open > 0) return;
  post([done = std::move(b.done)] { done(nullptr); });
  const auto at = buckets.find(b.key);
  if (b.next)
    at->second = std::move(b.next);
  else
    buckets.erase(at);
}

void all_reduce::implementation::fail(const std::exception_ptr& why) {
  if (is_over()) return;
  failure = why;
  for (auto& [key, b] : buckets)
    if (b->is_started) post([done = std::move(b->done), why] { done(why); });
  buckets.clear();
}

all_reduce::all_reduce(endpoint& data, group members, channel base, add_elements add, std::size_t element_bytes)
    : self_(std::make_shared<implementation>(data, std::move(members), base, std::move(add), element_bytes)) {
  self_->open();
}

all_reduce::~all_reduce() {
  self_->close();
}

void all_reduce::start(std::uint64_t key, std::vector<std::vector<part>> contributions, std::vector<part> result,
                       completion done) {
  self_->start(key, std::move(contributions), std::move(result), std::move(done));
}

void all_reduce::forget_below(std::uint64_t key) {
  self_->forget_below(key);
}

} // namespace penstock::transport
