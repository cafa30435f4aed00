// What has reached a stage replica and waits for its turn, by key.
#pragma once

#include "actors/stage/messages.hpp"
#include "kernels/check.hpp"
#include "kernels/segment.hpp"

#include <map>
#include <optional>

namespace penstock::actors {

/// Tensors in the order in which the segment wants them, checked against the shapes that the model has in such a
/// micro-batch.
/// Throws penstock::error for a name that is missing or unexpected, and for another type or shape. "none" tensors are
/// let through for gradients, and in an evaluation.
std::vector<tensor> in_model_order(const model& m, const std::vector<value_id>& wanted, std::vector<named_tensor> got,
                                   const microbatch_info& of, bool none_allowed);
std::vector<named_tensor> with_names(const model& m, const std::vector<value_id>& ids, std::vector<tensor> tensors);
std::int64_t total_bytes(const std::vector<named_tensor>& tensors);

/// Messages by (minibatch since the drain, micro-batch). Bounded: a message beyond the credits, or a second one with
/// the same key, is a fault of the sender and is thrown as penstock::error. Training takes keys in ascending order, so
/// one that lies before the last taken came twice too.
template <class Message>
class keyed_inbox {
public:
  using key = std::pair<std::int64_t, std::int32_t>;
  static key key_of(const message_key& k) { return {k.since_drain, k.microbatch}; }

  void put(Message m, std::size_t bound, const char* what);
  bool has(std::int64_t minibatch, std::int32_t microbatch) const { return held_.contains({minibatch, microbatch}); }
  Message take(std::int64_t minibatch, std::int32_t microbatch);
  /// The first held key for which `ready` says true.
  template <class Ready>
  std::optional<key> find_if(Ready ready) const {
    for (const auto& [k, m] : held_)
      if (ready(k)) return k;
    return std::nullopt;
  }
  std::size_t size() const { return held_.size(); }
  /// A new stretch: keys start again. Whatever is still held was sent once too often.
  void restart(phase mode, const char* what);

private:
  std::map<key, Message> held_;
  std::optional<key> last_taken_;
  phase mode_ = phase::training;
};

[[noreturn]] void refuse_message(const message_key& k, std::size_t bound, bool twice, const char* what);

template <class Message>
void keyed_inbox<Message>::put(Message m, std::size_t bound, const char* what) {
  if (held_.size() >= bound) refuse_message(m.key, bound, false, what);
  const auto k = key_of(m.key);
  const bool passed = mode_ == phase::training && last_taken_ && k <= *last_taken_;
  if (passed || held_.contains(k)) refuse_message(m.key, bound, true, what);
  held_.emplace(k, std::move(m));
}

template <class Message>
Message keyed_inbox<Message>::take(std::int64_t minibatch, std::int32_t microbatch) {
  auto node = held_.extract({minibatch, microbatch});
  check(!node.empty(), "took a message that has not come");
  last_taken_ = std::max(last_taken_.value_or(node.key()), node.key());
  return std::move(node.mapped());
}

template <class Message>
void keyed_inbox<Message>::restart(phase mode, const char* what) {
  if (!held_.empty()) refuse_message(held_.begin()->second.key, 0, true, what);
  last_taken_.reset();
  mode_ = mode;
}

} // namespace penstock::actors
