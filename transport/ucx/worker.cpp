// Opens UCX's contexts, and asks UCX how it connects.
#include "transport/ucx/worker.hpp"

#include "kernels/check.hpp"
#include "transport/ucx/filter_log.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <vector>

namespace penstock::transport {

namespace {

struct release_configuration {
  void operator()(ucp_config_t* c) const { ucp_config_release(c); }
};
using configuration = std::unique_ptr<ucp_config_t, release_configuration>;

// What UCX_TLS may name that leads to no other host.
constexpr std::array<std::string_view, 9> near_only{"sm", "shm", "mm", "posix", "sysv", "cma", "knem", "xpmem", "self"};

// UCX sends up to 128 KB over TCP in one go; the rest is for headers.
constexpr std::size_t tcp_piece_bytes = std::size_t{120} << 10;

// Shared segments of System V would outlive a killed process, so UCX may choose among the other ways only. To the
// network's context shared memory must be unknown: it would be tried across network namespaces. Without "self" UCX has
// to say so when none of the devices exists.
std::string transports(ucx_kind kind) {
  return kind == ucx_kind::shared_memory ? "posix,cma" : "^sm,self";
}

// `key`: as UCX 1.13 wants it here, without the transport's name that the user's variable has.
void configure(ucp_config_t* c, const char* key, const std::string& value, const std::string& of = "") {
  if (std::getenv(("UCX_" + of + key).c_str()) != nullptr) return; // the user's word, which UCX has read
  check_ucx(ucp_config_modify(c, key, value.c_str()), "set " + std::string(key) + " to '" + value + "'");
}

} // namespace

void check_ucx(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK) throw error("[ucx] cannot " + what + ": " + ucs_status_string(status));
}

bool ucx_worker::is_allowed(ucx_kind kind) {
  const char* set = std::getenv("UCX_TLS");
  if (set == nullptr) return true;
  const bool excludes = *set == '^';
  std::istringstream list(excludes ? set + 1 : set);
  std::set<std::string> names;
  for (std::string name; std::getline(list, name, ',');)
    names.insert(name);
  const auto has = [&names](const char* name) { return names.contains(name); };
  const bool names_all_shared = has("sm") || has("shm") || has("mm");
  if (excludes) return kind == ucx_kind::network || !(names_all_shared || (has("posix") && has("sysv")));
  if (has("all")) return true;
  if (kind == ucx_kind::shared_memory) return names_all_shared || has("posix") || has("sysv");
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return std::find(near_only.begin(), near_only.end(), name) == near_only.end();
  });
}

ucx_worker::ucx_worker(ucx_kind kind, const std::string& devices) : kind_(kind) {
  filter_ucx_log();
  ucp_config_t* read = nullptr;
  check_ucx(ucp_config_read(nullptr, nullptr, &read), "read its configuration");
  const configuration settings(read);
  configure(settings.get(), "TLS", transports(kind));
  configure(settings.get(), "NET_DEVICES", devices);
  if (kind == ucx_kind::network) {
    // UCX 1.13 aborts the process when a peer dies while TCP sends from the user's memory without a rendezvous: its
    // completion is called twice. So pieces are copied, each into one segment.
    configure(settings.get(), "ZCOPY_THRESH", "inf");
    configure(settings.get(), "TX_SEG_SIZE", "128k", "TCP_");
    configure(settings.get(), "RX_SEG_SIZE", "256k", "TCP_"); // two pieces at a system call
    if (devices == "lo") configure(settings.get(), "SNDBUF", "256k", "TCP_");
  }

  ucp_params_t context{};
  context.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  context.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  context.name = "penstock";
  ucp_context_h opened = nullptr;
  const std::string what =
      kind == ucx_kind::shared_memory ? "open shared memory" : "open network devices '" + devices + "'";
  check_ucx(ucp_init(&context, settings.get(), &opened), what);
  context_.reset(opened);

  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h created = nullptr;
  check_ucx(ucp_worker_create(context_.get(), &worker, &created), what);
  worker_.reset(created);
}

std::string ucx_worker::address() const {
  ucp_worker_attr_t a{};
  a.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  if (kind_ == ucx_kind::network) {
    a.field_mask |= UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    a.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  }
  check_ucx(ucp_worker_query(worker_.get(), &a), "tell its address");
  std::string bytes(reinterpret_cast<const char*>(a.address), a.address_length);
  ucp_worker_release_address(worker_.get(), a.address);
  return bytes;
}

std::size_t ucx_worker::max_header() const {
  ucp_worker_attr_t a{};
  a.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  check_ucx(ucp_worker_query(worker_.get(), &a), "tell its longest header");
  return a.max_am_header;
}

int ucx_worker::event_descriptor() const {
  int descriptor = -1;
  check_ucx(ucp_worker_get_efd(worker_.get(), &descriptor), "tell its event descriptor");
  return descriptor;
}

bool ucx_worker::arm() {
  const ucs_status_t status = ucp_worker_arm(worker_.get());
  if (status == UCS_ERR_BUSY) return false;
  check_ucx(status, "wait for events");
  return true;
}

ucp_ep_h ucx_worker::connect(std::string_view address, const std::string& whom, ucp_err_handler_t on_error) {
  ucp_ep_params_t p{};
  p.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  p.address = reinterpret_cast<const ucp_address_t*>(address.data());
  p.err_mode = UCP_ERR_HANDLING_MODE_NONE;
  if (kind_ == ucx_kind::network) { // UCX refuses shared memory to those who ask for peer failures
    p.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
    p.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    p.err_handler = on_error;
  }
  ucp_ep_h connection = nullptr;
  check_ucx(ucp_ep_create(worker_.get(), &p, &connection), "connect to " + whom);
  return connection;
}

std::string route_of(ucp_ep_h connection, ucx_kind kind) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* memory = ::open_memstream(&text, &bytes);
  if (memory == nullptr) return "unknown";
  ucp_ep_print_info(connection, memory);
  std::fclose(memory);
  std::istringstream lines(std::string(text, bytes));
  std::free(text);

  // "lane[0]:  1:posix/memory.0 md[1] -> ...": resource number, transport, device, path
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(std::min(line.find("lane["), line.size())));
    std::string lane;
    std::string resource;
    if (!(words >> lane >> resource)) continue;
    const auto colon = resource.find(':');
    const auto slash = resource.find('/');
    if (colon == std::string::npos || slash == std::string::npos || colon > slash) continue;
    std::string name = resource.substr(colon + 1, slash - colon - 1);
    if (kind == ucx_kind::network) name += " over " + resource.substr(slash + 1, resource.rfind('.') - slash - 1);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string route;
  for (const std::string& name : names)
    route += (route.empty() ? "" : ", ") + name;
  return kind == ucx_kind::network ? route : "shared memory (" + route + ")";
}

// UCX would negotiate each large part: announcement, permission, bytes. On a lone TCP connection a permission queues
// behind all bytes that go the same way, and meanwhile the other direction idles: two ranks that send to each other
// take turns, at half the link's speed. Pieces that go without asking keep both directions busy, for one more copy on
// each side. Several lanes, or RDMA, are better left to UCX, and so is a threshold that the user has set.
std::size_t piece_bytes_of(ucp_ep_h connection) {
  if (std::getenv("UCX_RNDV_THRESH") != nullptr) return 0;
  const std::string route = route_of(connection, ucx_kind::network);
  return route.starts_with("tcp over ") && route.find(',') == std::string::npos ? tcp_piece_bytes : 0;
}

} // namespace penstock::transport
