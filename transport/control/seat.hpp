// A rank's own half of the control plane: what it waits for, what is held for it. How frames travel is the subclass's.
#pragma once

#include "transport/control/control_plane.hpp"
#include "transport/control/frame.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace penstock::transport {

/// Does all of control_plane over frames that go up to rank 0's hub and come down from it. A subclass carries them, and
/// joins its network thread in its own destructor.
class seat : public control_plane {
public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }
  const std::vector<member>& members() const final { return members_; }

  std::vector<std::string> all_gather(std::string_view name, std::string_view blob,
                                      std::chrono::milliseconds deadline) final;
  std::string broadcast(std::string_view name, std::string_view blob, std::chrono::milliseconds deadline) final;
  void send(int to, std::string_view topic, std::string_view payload) final;
  void on_message(std::string_view topic, message_handler handler) final;
  void doing(std::string_view what) override;
  void fail(std::string_view what) final;
  void suspect(int peer, std::string_view what) final;
  std::optional<job_failure> failure() const final;
  void on_failure(failure_handler handler) final;
  std::int64_t clock_offset_ns() const override { return 0; }
  void leave(std::chrono::milliseconds deadline) final;

protected:
  seat(int rank, int size) : rank_(rank), size_(size) {}

  /// Sends a frame to the hub. Any thread.
  virtual void up(frame f) = 0;
  /// Runs a task on the network's thread, soon. Any thread; not run any more once destruction has begun.
  virtual void post(std::function<void()> task) = 0;
  virtual bool on_network_thread() const = 0;

  /// A frame came down. On the network's thread, as the next two.
  void take(frame f);
  void end_with(job_failure cause);
  bool is_over() const; ///< all have left, or the job has failed

  /// Waits for the welcome. Throws the first cause, or error with `late` when the deadline passes.
  void wait_for_members(std::chrono::milliseconds deadline, const std::string& late);
  std::string now_doing() const;

private:
  using lock = std::unique_lock<std::mutex>;
  struct blobs {
    bool asked = false; ///< this rank has called for the name
    std::vector<std::optional<std::string>> by_rank;
  };
  struct topic_state {
    std::deque<std::pair<int, std::string>> held;
    std::shared_ptr<const message_handler> handler;
  };

  blobs& blobs_named(const std::string& name);
  void open(std::string_view name, std::string_view blob);
  void wait(lock& held, std::chrono::milliseconds deadline, const std::function<bool()>& ready,
            const std::function<std::string()>& late);
  std::string without(const std::string& name, const blobs& b) const;
  void drain(const std::string& topic);
  void tell_failure();

  const int rank_;
  const int size_;
  std::vector<member> members_; // written once, before wait_for_members returns

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool welcome_ = false;
  bool all_left_ = false;
  std::map<std::string, blobs> blobs_;
  std::map<std::string, topic_state> topics_;
  std::string doing_;
  std::optional<job_failure> failure_;
  failure_handler failure_handler_;
};

} // namespace penstock::transport
