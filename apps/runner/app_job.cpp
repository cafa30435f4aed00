// Rendezvous, data plane, and the last resort when a process that must end does not.
#include "apps/runner/app_job.hpp"

#include "actors/checkpoint/digest.hpp"
#include "apps/runner/exit_codes.hpp"
#include "apps/runner/routes_text.hpp"
#include "apps/runner/say.hpp"
#include "apps/runner/signals.hpp"
#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/little_memory.hpp"
#include "kernels/usable_cores.hpp"
#include "transport/control/join.hpp"
#include "transport/launch/cores.hpp"
#include "transport/launch/network_device.hpp"
#include "transport/ucx/ucx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

namespace penstock::apps {

namespace {

using namespace std::chrono_literals;

// Ranks that have lost others all start anew at once. One may still have been unwinding when the first came (watch()'s
// grace), and comes then; one that does not come was lost with the others, and holds up those that are left.
constexpr auto least_rejoin_deadline = 6000ms;
constexpr auto most_rejoin_deadline = 15000ms;
constexpr auto least_connect_deadline = 30000ms;
constexpr const char* signal_topic = "signal";

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * seconds));
}

transport::launch_flags flags_of(const job_options& o) {
  transport::launch_flags flags;
  if (o.rank >= 0) flags.rank = o.rank;
  if (o.processes > 0) flags.size = o.processes;
  flags.master = o.master;
  return flags;
}

transport::join_options join_options_of(const job_options& o,
                                        std::span<const std::pair<std::string, std::string>> shared,
                                        const std::function<void(const std::string&)>& warn) {
  transport::join_options join;
  join.secret = transport::read_secret();
  const auto [library, instruction_set] = compute_library();
  join.facts = {{"the program", actors::sha256_of_file("/proc/self/exe").substr(0, 16)},
                {"the compute library", library + " " + instruction_set}};
  join.facts.insert(join.facts.end(), shared.begin(), shared.end());
  join.join_deadline = milliseconds(o.join_seconds);
  join.silence = milliseconds(o.silence_seconds);
  join.log = warn;
  return join;
}

std::chrono::milliseconds deadline_of_connecting(const job_options& o) {
  return std::max(milliseconds(o.join_seconds), least_connect_deadline);
}

transport::route_choice routes_of(const std::string& name) {
  if (name == "shm") return transport::route_choice::shared_memory;
  return name == "tcp" ? transport::route_choice::network : transport::route_choice::automatic;
}

} // namespace

transport::launch find_launch(const job_options& options) {
  return transport::read_launch(flags_of(options), transport::process_environment());
}

std::string started_by(const transport::launch& where) {
  auto text = "started by " + where.source;
  for (const auto& other : where.unused)
    text += (&other == &where.unused.front() ? "; not used: " : ", ") + other;
  return text;
}

app_job::app_job(const job_options& options, std::span<const std::pair<std::string, std::string>> shared,
                 transport::launch where, const std::function<void(const std::string&)>& warn)
    : where_(std::move(where)) {
  const char* wish = std::getenv("PENSTOCK_ON_LOSS"); // `penstock launch --on-loss`
  shrinks_ = options.on_loss == "shrink" || (wish != nullptr && std::string_view(wish) == "shrink");
  recipe_ = make_restart_recipe(where_);
  transport::bind_to(transport::cores_of_rank(where_));
  share_quota(where_.local_size);
  auto join = join_options_of(options, shared, warn);
  secret_ = join.secret;
  join.generation = static_cast<int>(recipe_.lost.size());
  if (join.generation > 0)
    join.join_deadline = std::clamp(join.join_deadline, least_rejoin_deadline, most_rejoin_deadline);
  try {
    control_ = transport::join_job(where_, join);
  } catch (const transport::job_failed& e) {
    // What was lost while the others started anew. A rank that never comes at all is a mistake in how they were
    // started.
    if (join.generation > 0) go_on_without(e.cause());
    throw;
  }
  recipe_.hosts = hosts_of(control_->members());
  control_->on_message(signal_topic, [](int, std::string_view number) {
    signal_guard::told(number == std::to_string(SIGINT) ? SIGINT : SIGTERM);
  });
  watcher_ = std::thread([this] { watch(); });
  try {
    connect(options, join.secret.token("data plane"));
  } catch (const std::exception& e) {
    fail(described(e));
    over_ = true;
    watcher_.join();
    go_on_without_lost();
    throw;
  }
}

// The devices by which ranks of other hosts have found rank 0 are those that lead to them. A rank on rank 0's own host
// uses the same.
std::string app_job::devices_of(const job_options& options) {
  const auto own = transport::network_devices_of(control_->ways_out());
  const auto of_rank_0 = control_->broadcast("network devices", own, deadline_of_connecting(options));
  if (!options.devices.empty()) return options.devices;
  return control_->ways_out().empty() ? of_rank_0 : own;
}

void app_job::connect(const job_options& options, const std::array<std::byte, 16>& token) {
  control_->doing("connecting the data plane");
  constexpr std::size_t taken_by_ucx = std::size_t{16} << 20;
  require_address_space(taken_by_ucx, "connections to other processes"); // UCX aborts where it gets none
  const auto devices = devices_of(options);
  transport::await_running(devices, 3s);
  const auto port = transport::open_ucx({.rank = where_.rank,
                                         .size = where_.size,
                                         .ranks_here = static_cast<int>(std::ranges::count(
                                             recipe_.hosts, recipe_.hosts[static_cast<std::size_t>(where_.rank)])),
                                         .token = token,
                                         .routes = routes_of(options.transport),
                                         .devices = devices,
                                         .poll = options.poll});
  const auto deadline = deadline_of_connecting(options);
  const auto addresses = control_->all_gather("data plane", port->address(), deadline);
  data_ = port->connect(addresses, deadline);
  remarks_ = port->remarks();
  std::vector<std::string> routes;
  for (int peer = 0; peer < where_.size; ++peer)
    routes.push_back(data_->route_to(peer));
  routes_ = control_->all_gather("routes", pack_routes(routes), deadline);
  data_->on_failure([this](int peer, const std::string& what) { control_->suspect(peer, what); });
  ranks_ = std::make_unique<actors::job>(actors::job{*control_, *data_});
  control_->doing("preparing its part");
}

// A kernel or an allocation cannot be interrupted; a process whose job has failed must end all the same.
void app_job::watch() {
  constexpr auto grace = 3s;
  std::chrono::steady_clock::time_point since{};
  while (!over_) {
    std::this_thread::sleep_for(50ms);
    pass_on_signal();
    const auto cause = control_->failure();
    if (!cause) continue;
    const auto now = std::chrono::steady_clock::now();
    if (since == decltype(since){}) since = now;
    if (now - since < grace) continue;
    const int signalled = go_on_without(*cause); // no flush: who holds the stream may be what hangs
    if (signalled != 0) std::_Exit(signalled);
    const bool nobody_else_tells = is_first() || (cause->lost && cause->rank == 0);
    if (nobody_else_tells && !over_) complain("penstock", cause->text);
    std::_Exit(code_of_failure(failed));
  }
}

// Called by the run's thread when it has unwound, or by the watcher when it cannot.
int app_job::go_on_without(const transport::job_failure& cause) {
  const std::lock_guard lock(going_on_);
  if (!shrinks_ || !cause.lost) return 0;
  auto lost = cause.also_lost;
  lost.push_back(cause.rank);
  std::ranges::sort(lost);
  if (lost.front() <= 0 || std::ranges::binary_search(lost, where_.rank)) return 0;
  if (signal_guard::exit_code() != 0) return signal_guard::exit_code(); // it was to end anyway
  if (is_first())
    complain("penstock", fmt::format("{}; going on with {} processes", cause.text, where_.size - lost.size()));
  if (const auto reason = start_anew(recipe_, lost); !reason.empty())
    complain("penstock", "cannot start anew: " + reason);
  return signal_guard::exit_code();
}

int app_job::go_on_without_lost() {
  const auto cause = control_->failure();
  if (!cause) return 0;
  std::fflush(nullptr);
  return go_on_without(*cause);
}

app_job::~app_job() {
  over_ = true;
  watcher_.join();
  if (data_) data_->on_failure({});
  ranks_.reset();
  data_.reset();
}

std::vector<std::string> app_job::description() const {
  std::vector<std::string> lines{fmt::format("{} processes, {}", where_.size, started_by(where_))};
  for (auto& line : members_text(control_->members()))
    lines.push_back("  " + std::move(line));
  std::vector<std::vector<std::string>> routes;
  for (const auto& packed : routes_)
    routes.push_back(unpack_routes(packed, routes_.size()));
  for (auto& line : routes_text(control_->members(), routes))
    lines.push_back("  " + std::move(line));
  for (const auto& remark : remarks_)
    lines.push_back("  " + remark);
  return lines;
}

void app_job::compare(const std::string& what, const std::string& value) {
  const auto all = control_->all_gather("compare " + what, value, ranks_->patience);
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw usage_error(fmt::format("{} differs: rank 0 has {}, rank {} has {}", what, all[0], r, all[r]));
}

void app_job::pass_on_signal() {
  const int signal = signal_guard::own_signal();
  if (signal == 0 || signal_passed_on_.exchange(true)) return;
  for (int rank = 0; rank < where_.size; ++rank)
    if (rank != where_.rank) control_->send(rank, signal_topic, std::to_string(signal));
}

void app_job::await_cause(std::chrono::milliseconds patience) const {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!control_->failure() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(10ms);
}

bool app_job::fail(const std::string& why) {
  has_failed_ = true;
  // What broke here may have broken because a rank was lost, which becomes known a little later and can be mended.
  constexpr auto suspicion = 600ms; // twice what the control plane takes over one
  constexpr auto answer = 2s;       // a rank 0 that hangs tells nobody
  if (shrinks_) await_cause(suspicion);
  control_->fail(why);
  if (is_first()) return false;
  await_cause(answer);
  const auto cause = control_->failure();
  return cause && !(cause->lost && cause->rank == 0);
}

int app_job::code_of_failure(int own) const {
  const auto cause = control_->failure();
  const char* wanted = std::getenv("PENSTOCK_FOLLOWER_CODE");
  if (!cause || cause->rank == where_.rank || wanted == nullptr) return own;
  const int code = std::atoi(wanted);
  return code > 0 && code < 128 ? code : own;
}

actors::job_place place_in(const app_job* job) {
  return job != nullptr ? actors::job_place{job->ranks().size(), job->ranks().rank()} : actors::job_place{};
}

// Rank 0 hashes and writes what all have learnt while the others have nothing more to do; it then waits for nobody
// long.
void app_job::leave() {
  if (has_failed_) return;
  control_->doing("waiting for the others to end");
  try {
    control_->leave(is_first() ? 10s : ranks_->patience);
  } catch (const transport::job_failed& e) {
    if (!shrinks_ || !e.cause().lost || e.cause().rank == 0) throw; // the work is done, also without who was lost
  }
}

} // namespace penstock::apps
