// All-reduce among processes: ours over UCX against Gloo's ring over TCP (what PyTorch DDP runs on CPUs), in
// alternating rounds of one run, in buckets of several sizes. Prints median times and bandwidths.
//
//   bench_all_reduce [ranks = 2] [megabytes = 100] [rounds = 7] [route: shared, network, hosts = shared]
//
// "shared" and "network" are two ways inside this host, where Gloo takes loopback; "hosts" puts each rank into one of
// the namespaces of tools/netns, where both take the link between them (root only).
#include "transport/collectives.hpp"
#include "transport/ucx/ucx.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <memory>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace penstock;
using namespace penstock::transport;
using namespace std::chrono_literals;

constexpr int most_ranks = 16;
constexpr std::size_t megabyte = 1'000'000;

/// What the processes share: a place to meet, and UCX addresses.
struct meeting {
  explicit meeting(int size) {
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&barrier, &shared, static_cast<unsigned>(size));
  }
  void wait() { pthread_barrier_wait(&barrier); }

  pthread_barrier_t barrier;
  std::array<std::array<char, 4096>, most_ranks> addresses{};
  std::array<std::size_t, most_ranks> address_bytes{};
};

struct options {
  int ranks = 2;
  std::size_t bytes = 100 * megabyte;
  int rounds = 7;
  route_choice route = route_choice::shared_memory;
  bool in_namespaces = false;
  const char* device() const { return in_namespaces ? "net0" : "lo"; }
};

void add_floats(std::byte* onto, const std::byte* from, std::size_t bytes) {
  auto* sum = reinterpret_cast<float*>(onto);
  const auto* values = reinterpret_cast<const float*>(from);
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i)
    sum[i] += values[i];
}

std::unique_ptr<endpoint> connect(const options& o, int rank, meeting& all) {
  ucx_options how;
  how.rank = rank;
  how.size = o.ranks;
  how.routes = o.route;
  how.devices = o.device();
  const auto port = open_ucx(how);
  const std::string address = port->address();
  const auto me = static_cast<std::size_t>(rank);
  if (address.size() > all.addresses[me].size()) throw std::runtime_error("an address of UCX is too long");
  std::memcpy(all.addresses[me].data(), address.data(), all.address_bytes[me] = address.size());
  all.wait();
  std::vector<std::string> addresses;
  for (std::size_t r = 0; r < static_cast<std::size_t>(o.ranks); ++r)
    addresses.emplace_back(all.addresses[r].data(), all.address_bytes[r]);
  return port->connect(addresses, 10s);
}

std::shared_ptr<gloo::Context> gloo_ring(const options& o, int rank, const std::string& folder) {
  gloo::transport::tcp::attr link;
  link.iface = o.device();
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(link);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, o.ranks);
  context->connectFullMesh(store, device);
  return context;
}

/// Calls `f(index, offset, bytes)` for buckets of at most so many bytes.
template <typename F>
std::size_t for_buckets(std::size_t bytes, std::size_t bucket_bytes, F&& f) {
  std::size_t index = 0;
  for (std::size_t at = 0; at < bytes; at += bucket_bytes)
    f(index++, at, std::min(bucket_bytes, bytes - at));
  return index;
}

void reduce_ours(all_reduce& ours, const buffer& data, std::size_t bucket_bytes) {
  std::vector<std::future<void>> ends;
  for_buckets(data.size(), bucket_bytes, [&](std::size_t index, std::size_t at, std::size_t bytes) {
    const auto end = std::make_shared<std::promise<void>>();
    ends.push_back(end->get_future());
    const std::vector<part> in_place = {{data, at, bytes}};
    ours.start(index, {in_place}, in_place,
               [end](std::exception_ptr why) { why ? end->set_exception(why) : end->set_value(); });
  });
  for (auto& end : ends) {
    if (end.wait_for(60s) != std::future_status::ready) throw std::runtime_error("a bucket is not done in 60 s");
    end.get();
  }
}

void reduce_gloo(const std::shared_ptr<gloo::Context>& context, const buffer& data, std::size_t bucket_bytes) {
  for_buckets(data.size(), bucket_bytes, [&](std::size_t index, std::size_t at, std::size_t bytes) {
    gloo::AllreduceOptions call(context);
    call.setOutput(reinterpret_cast<float*>(data.data() + at), bytes / sizeof(float));
    call.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    call.setReduceFunction([](void* c, const void* a, const void* b, std::size_t n) { gloo::sum<float>(c, a, b, n); });
    call.setTag(static_cast<std::uint32_t>(index));
    gloo::allreduce(call);
  });
}

void fill(const buffer& data, int rank) {
  auto* values = reinterpret_cast<float*>(data.data());
  for (std::size_t i = 0; i < data.size() / sizeof(float); ++i)
    values[i] = static_cast<float>((i + static_cast<std::size_t>(rank)) % 1024);
}

bool is_summed(const buffer& data, int ranks) {
  const auto* values = reinterpret_cast<const float*>(data.data());
  for (std::size_t i = 0; i < data.size() / sizeof(float); ++i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r)
      sum += static_cast<float>((i + static_cast<std::size_t>(r)) % 1024);
    if (values[i] != sum) return false;
  }
  return true;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of one reduction, from the moment all ranks are ready until all are done.
template <typename F>
double timed(const options& o, meeting& all, const buffer& data, int rank, F&& reduce) {
  fill(data, rank);
  all.wait();
  const auto begin = std::chrono::steady_clock::now();
  reduce();
  all.wait();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  if (!is_summed(data, o.ranks)) throw std::runtime_error("a sum is wrong");
  return taken.count();
}

// With a /sys of its own, where UCX looks for network devices.
void enter_namespace(int rank) {
  const char* set = std::getenv("PENSTOCK_NETNS");
  const std::string name = (set != nullptr ? set : "ps") + std::to_string(rank);
  const int host = ::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (host < 0 || ::setns(host, CLONE_NEWNET) != 0 || ::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0)
    throw std::runtime_error("cannot enter the network namespace " + name + ": " + std::strerror(errno));
  ::close(host);
}

void run_rank(const options& o, int rank, meeting& all, const std::string& folder) {
  if (o.in_namespaces) enter_namespace(rank);
  const auto network = connect(o, rank, all);
  const auto ring = gloo_ring(o, rank, folder);
  std::vector<int> rank_of;
  for (int r = 0; r < o.ranks; ++r)
    rank_of.push_back(r);
  all_reduce ours(*network, {rank_of}, channel{1}, add_floats, sizeof(float));
  memory_pool pool;
  const buffer data = pool.allocate(o.bytes, memory_use::gradients);
  if (rank == 0)
    std::printf("%d ranks, %zu MB, %d rounds; ours over %s\n", o.ranks, o.bytes / megabyte, o.rounds,
                network->route_to(1).c_str());
  double best_ours = 1e9;
  double best_gloo = 1e9;
  for (const std::size_t bucket : {4 * megabyte, 10 * megabyte, 25 * megabyte, o.bytes}) {
    std::vector<double> of_ours, of_gloo;
    for (int round = -1; round < o.rounds; ++round) {
      const double gloos = timed(o, all, data, rank, [&] { reduce_gloo(ring, data, bucket); });
      const double mine = timed(o, all, data, rank, [&] { reduce_ours(ours, data, bucket); });
      if (round < 0) continue; // the first touches memory
      of_gloo.push_back(gloos);
      of_ours.push_back(mine);
    }
    best_ours = std::min(best_ours, median(of_ours));
    best_gloo = std::min(best_gloo, median(of_gloo));
    if (rank == 0)
      std::printf("buckets of %3zu MB: ours %6.1f ms (%.2f GB/s), Gloo %6.1f ms (%.2f GB/s), bandwidth ratio %.2f\n",
                  bucket / megabyte, 1e3 * median(of_ours), static_cast<double>(o.bytes) / median(of_ours) / 1e9,
                  1e3 * median(of_gloo), static_cast<double>(o.bytes) / median(of_gloo) / 1e9,
                  median(of_gloo) / median(of_ours));
  }
  if (rank == 0) std::printf("best against best: ratio %.2f\n", best_gloo / best_ours);
  all.wait(); // nobody leaves while another still sends
}

options read_options(int argc, char** argv) {
  options o;
  if (argc > 1) o.ranks = std::atoi(argv[1]);
  if (argc > 2) o.bytes = static_cast<std::size_t>(std::atoll(argv[2])) * megabyte;
  if (argc > 3) o.rounds = std::atoi(argv[3]);
  const std::string route = argc > 4 ? argv[4] : "shared";
  o.in_namespaces = route == "hosts";
  if (o.in_namespaces || route == "network") o.route = route_choice::network;
  if (o.ranks < 2 || o.ranks > most_ranks || o.bytes == 0 || o.rounds < 1)
    throw std::runtime_error("usage: bench_all_reduce [ranks] [megabytes] [rounds] [shared, network or hosts]");
  return o;
}

} // namespace

int main(int argc, char** argv) try {
  const options o = read_options(argc, argv);
  void* const memory = ::mmap(nullptr, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
  auto& all = *new (memory) meeting(o.ranks);
  std::string folder = (std::filesystem::temp_directory_path() / "bench_all_reduce.XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make a folder " + folder);
  std::vector<pid_t> children;
  for (int rank = 0; rank < o.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(600); // a barrier knows no deadline
      try {
        run_rank(o, rank, all, folder);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
        std::fflush(nullptr);
        ::_exit(1);
      }
      std::fflush(nullptr);
      ::_exit(0);
    }
    children.push_back(child);
  }
  int failures = 0;
  for (std::size_t ended = 0; ended < children.size(); ++ended) {
    int status = 0;
    ::wait(&status);
    // The others would wait at the barrier for ever.
    if (status != 0 && failures++ == 0)
      for (const pid_t child : children)
        ::kill(child, SIGKILL);
  }
  std::filesystem::remove_all(folder);
  return failures == 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
