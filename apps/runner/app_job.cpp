// Rendezvous, data plane, and the last resort when a process that must end does not.
#include "apps/runner/app_job.hpp"

#include "actors/digest.hpp"
#include "apps/runner/signals.hpp"
#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "transport/control/join.hpp"
#include "transport/launch/cores.hpp"
#include "transport/launch/network_device.hpp"
#include "transport/ucx/ucx.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace penstock::apps {

namespace {

using namespace std::chrono_literals;

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

transport::route_choice routes_of(const std::string& name) {
  if (name == "shm") return transport::route_choice::shared_memory;
  return name == "tcp" ? transport::route_choice::network : transport::route_choice::automatic;
}

} // namespace

transport::launch find_launch(const job_options& options) {
  return transport::read_launch(flags_of(options), transport::process_environment());
}

app_job::app_job(const job_options& options, std::span<const std::pair<std::string, std::string>> shared,
                 transport::launch where, const std::function<void(const std::string&)>& warn)
    : where_(std::move(where)) {
  const char* wish = std::getenv("PENSTOCK_ON_LOSS"); // `penstock launch --on-loss`
  shrinks_ = options.on_loss == "shrink" || (wish != nullptr && std::string_view(wish) == "shrink");
  recipe_ = make_restart_recipe(where_, {});
  transport::bind_to(transport::cores_of_rank(where_));
  const auto join = join_options_of(options, shared, warn);
  control_ = transport::join_job(where_, join);
  recipe_.members = control_->members();
  watcher_ = std::thread([this] { watch(); });
  try {
    connect(options, join.secret.token("data plane"));
  } catch (const std::exception& e) {
    control_->fail(e.what());
    over_ = true;
    watcher_.join();
    throw;
  }
}

void app_job::connect(const job_options& options, const std::array<std::byte, 16>& token) {
  control_->doing("connecting the data plane");
  const auto devices = options.devices.empty() ? transport::network_device_towards(where_.master, where_.rank == 0)
                                                   : options.devices;
  const auto port = transport::open_ucx({.rank = where_.rank,
                                         .size = where_.size,
                                         .token = token,
                                         .routes = routes_of(options.transport),
                                         .devices = devices,
                                         .poll = options.poll});
  const auto addresses = control_->all_gather("data plane", port->address(), 30s);
  data_ = port->connect(addresses, 30s);
  data_->on_failure([this](int peer, const std::string& what) { control_->suspect(peer, what); });
  ranks_ = std::make_unique<actors::job>(actors::job{*control_, *data_});
}

// A kernel or an allocation cannot be interrupted; a process whose job has failed must end all the same.
void app_job::watch() {
  constexpr auto grace = 3s;
  std::chrono::steady_clock::time_point since{};
  while (!over_) {
    std::this_thread::sleep_for(50ms);
    const auto cause = control_->failure();
    if (!cause) continue;
    const auto now = std::chrono::steady_clock::now();
    if (since == decltype(since){}) since = now;
    if (now - since < grace) continue;
    go_on_without_lost();
    if (is_first() && !over_) std::fprintf(stderr, "penstock: %s\n", cause->text.c_str());
    std::_Exit(1);
  }
}

void app_job::runs(const actors::placement& where, bool planned_anew) {
  const std::lock_guard lock(mutex_);
  placement_ = where;
  planned_anew_ = planned_anew;
}

// Called by the run's thread when it has unwound, or by the watcher when it cannot.
void app_job::go_on_without_lost() {
  const auto cause = control_->failure();
  const std::lock_guard lock(mutex_);
  if (signal_guard::exit_code() != 0) return; // it was to end anyway
  if (!shrinks_ || !placement_ || !cause || !cause->lost || cause->rank <= 0 || cause->rank == where_.rank) return;
  const auto left = without_rank(*placement_, cause->rank);
  if (left.empty()) return;
  if (is_first())
    std::fprintf(stderr, "penstock: %s; going on with %d processes\n", cause->text.c_str(), where_.size - 1);
  const auto reason = start_anew(recipe_, cause->rank, planned_anew_ ? std::vector<int>{} : left);
  std::fprintf(stderr, "penstock: cannot start anew: %s\n", reason.c_str());
}

app_job::~app_job() {
  over_ = true;
  watcher_.join();
  if (data_) data_->on_failure({});
  ranks_.reset();
  data_.reset();
}

std::vector<std::string> app_job::description() const {
  std::vector<std::string> lines{fmt::format("{} processes, started by {}", where_.size, where_.source)};
  for (int r = 0; r < where_.size; ++r) {
    const auto& m = control_->members()[static_cast<std::size_t>(r)];
    lines.push_back(fmt::format("  rank {} on {}, process {}{}", r, m.host, m.process,
                                r == where_.rank ? "" : ": " + data_->route_to(r)));
  }
  return lines;
}

void app_job::compare(const std::string& what, const std::string& value) {
  const auto all = control_->all_gather("compare " + what, value, ranks_->patience);
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw usage_error(fmt::format("{} differs: rank 0 has {}, rank {} has {}", what, all[0], r, all[r]));
}

bool app_job::fail(const std::string& why) {
  has_failed_ = true;
  control_->fail(why);
  const auto cause = control_->failure();
  return !is_first() && !(cause && cause->lost && cause->rank == 0);
}

// Rank 0 hashes and writes what all have learnt while the others have nothing more to do; it then waits for nobody long.
void app_job::leave() {
  if (has_failed_) return;
  control_->leave(is_first() ? 10s : ranks_->patience);
}

} // namespace penstock::apps
