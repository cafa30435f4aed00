// What a message costs from an actor to one in another process: mailbox, link, endpoint, gate and mailbox, against bare
// UCX in the same run. Prints medians of rounds. `bench_ranks [rounds = 5] [shared or network = both]`
#include "actors/ranks/channels.hpp"
#include "actors/ranks/gate.hpp"
#include "actors/ranks/job.hpp"
#include "actors/ranks/link_actor.hpp"
#include "actors/run/step_log.hpp"
#include "tools/rank_pair.hpp"
#include "transport/in_process.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>

#include <cstring>

using namespace penstock;
using namespace penstock::actors;
using steady = std::chrono::steady_clock;

namespace {

/// What an actor of an experiment works with.
struct role {
  experiment what;
  context_ptr context;
  caf::actor other;
  tensor outgoing;

  void send() const { caf::anon_send(other, activation_msg{{}, 0, {}, {{"x", outgoing}}}); }
  void grant() const { caf::anon_send(other, credit_msg{}); }
  void finish(double seconds) const { caf::anon_send(context->coordinator, seconds); }
};

/// tick_msg sets it off.
caf::behavior pinger(caf::event_based_actor*, role mine) {
  struct progress {
    steady::time_point start;
    std::vector<double> times;
  };
  const auto now = std::make_shared<progress>();
  const auto ping = [=] {
    now->start = steady::now();
    mine.send();
  };
  return {[=](const tick_msg&) { ping(); },
          [=](const activation_msg&) {
            now->times.push_back(seconds_since(now->start) / 2);
            if (static_cast<int>(now->times.size()) < mine.what.count)
              ping();
            else
              mine.finish(median(now->times));
          }};
}

caf::behavior echo(caf::event_based_actor*, role mine) {
  return {[=](const tick_msg&) {},
          [=, received = 0](const activation_msg&) mutable {
            mine.send();
            if (++received == mine.what.count) mine.finish(0);
          }};
}

constexpr int per_credit = in_flight / 2;

/// Keeps up to eight messages under way: the sink's credits, one for every four, let others follow.
caf::behavior stream_source(caf::event_based_actor*, role mine) {
  struct progress {
    steady::time_point start;
    int sent = 0;
    int taken = 0;
  };
  const auto now = std::make_shared<progress>();
  const auto post = [=] {
    if (now->sent++ < mine.what.count) mine.send();
  };
  return {[=](const tick_msg&) {
            now->start = steady::now();
            for (int i = 0; i < in_flight; ++i)
              post();
          },
          [=](const credit_msg&) {
            for (int i = 0; i < per_credit; ++i)
              post();
            now->taken += per_credit;
            if (now->taken >= mine.what.count) mine.finish(seconds_since(now->start) / mine.what.count);
          }};
}

caf::behavior stream_sink(caf::event_based_actor*, role mine) {
  return {[=](const tick_msg&) {},
          [=, received = 0](const activation_msg&) mutable {
            ++received;
            if (received % per_credit == 0 || received == mine.what.count) mine.grant();
            if (received == mine.what.count) mine.finish(0);
          }};
}

struct system_config : caf::actor_system_config {
  system_config() { // as the runtime sets it
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::size_t{2});
  }
};

/// As much of a rank's runtime as a message passes.
class rank_runtime {
public:
  rank_runtime(transport::endpoint& data, pair_line& line) : line_(line), ranks_{*controls_.front(), data} {
    inputs_.ranks = &ranks_;
    data.listen(actor_channel, gate_);
    gate_->open(0);
  }
  ~rank_runtime() {
    ranks_.data.listen(actor_channel, nullptr);
    gate_->close();
  }
  rank_runtime(const rank_runtime&) = delete;
  rank_runtime& operator=(const rank_runtime&) = delete;

  double run(const experiment& e) {
    const int rank = ranks_.data.rank();
    auto outgoing = tensor::allocate(pool_, dtype::u8, {static_cast<std::int64_t>(e.bytes)}, memory_use::activations);
    std::memset(outgoing.raw(), 1, e.bytes);
    const auto other = make_link(system_, context_, 1 - rank, address_of_rank(1 - rank));
    const auto behavior = e.is_stream ? (rank == 0 ? stream_source : stream_sink) : (rank == 0 ? pinger : echo);
    const auto mine = system_.spawn(behavior, role{e, context_, other, outgoing});
    gate_->admit(address_of_rank(rank), mine, &pool_);
    line_.meet();
    caf::anon_send(mine, tick_msg{});
    const double seconds = result();
    ranks_.data.flush(patience);
    line_.meet();
    caf::anon_send_exit(mine, caf::exit_reason::user_shutdown);
    return seconds;
  }

private:
  static constexpr std::chrono::seconds patience{30};
  static address address_of_rank(int rank) { return {address::part::replica, rank, 0}; }

  double result() {
    double seconds = 0;
    self_->receive([&](double s) { seconds = s; }, [](const failure_msg& m) { throw error(m.who + ": " + m.what); },
                   caf::after(patience) >> [] { throw error("the actors have not finished within 30 s"); });
    return seconds;
  }

  pair_line& line_;
  std::vector<std::unique_ptr<transport::control_plane>> controls_ = transport::make_in_process_control(1);
  job ranks_;
  planner::execution_plan plan_;
  run_options options_;
  run_inputs inputs_;
  pipeline parts_;
  run_observer observer_;
  run_control control_;
  step_log steps_{nullptr, observer_, {}, 1, 1, 1};
  run_services services_{plan_, options_, parts_, inputs_, observer_, control_, steps_};
  memory_pool pool_;
  system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor self_{system_};
  context_ptr context_{new actor_context{services_, caf::actor_cast<caf::actor>(self_)}};
  std::shared_ptr<gate> gate_ = std::make_shared<gate>(context_);
};

} // namespace

int main(int argc, char** argv) {
  return compare_with_bare_ucx(argc, argv, [](transport::endpoint& data, pair_line& line) -> moving {
    return [runtime = std::make_shared<rank_runtime>(data, line)](const experiment& e) { return runtime->run(e); };
  });
}
