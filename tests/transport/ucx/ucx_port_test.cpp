// How UCX is opened and peers are reached: routes, the user's UCX_ variables, strangers, silence.
#include "kernels/check.hpp"
#include "tests/transport/endpoint_kinds.hpp"
#include "tests/transport/ucx/environment.hpp"

#include <atomic>
#include <future>
#include <thread>

namespace penstock::transport {

namespace {

constexpr channel here{31};

class UcxPort : public testing::Test {
protected:
  void SetUp() override {
    if (!ucx_available()) GTEST_SKIP() << "this build has no UCX";
  }
};

endpoints connect(int size, route_choice routes) {
  return connect_over_ucx(size, [routes](ucx_options& o) { o.routes = routes; });
}

ucx_options options_of(int rank, int size) {
  ucx_options o;
  o.rank = rank;
  o.size = size;
  return o;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "no error";
}

/// Messages of many shapes there and back again.
void exchange(const endpoints& e) {
  const auto inbox = open_mailbox(*e[1], here);
  const auto back = open_mailbox(*e[0], here);
  const std::vector<std::size_t> sizes{0, 1, 900, 5'000, 61'440, 61'441, 2'000'000};
  for (unsigned i = 0; i < sizes.size(); ++i) {
    for (const std::size_t header : {std::size_t{3}, max_header_bytes}) {
      const std::string name = std::string(header - 1, 'h') + std::to_string(i);
      e[0]->send(1, here, {name, {patterned(sizes[i], i), patterned(40, i), patterned(sizes[i], i + 50)}});
      received r = inbox->next();
      ASSERT_EQ(r.content.header, name);
      ASSERT_EQ(r.content.parts.size(), 3u);
      EXPECT_TRUE(has_pattern(r.content.parts[0], sizes[i], i)) << sizes[i];
      EXPECT_TRUE(has_pattern(r.content.parts[2], sizes[i], i + 50)) << sizes[i];
      e[1]->send(0, here, std::move(r.content));
      EXPECT_TRUE(has_pattern(back->next().content.parts.at(1), 40, i));
    }
  }
  e[0]->flush(patience);
}

TEST_F(UcxPort, NeighboursUseSharedMemoryUnlessToldOtherwise) {
  const auto near = connect(2, route_choice::automatic);
  EXPECT_EQ(near[0]->route_to(1).substr(0, 21), "shared memory (posix,") << near[0]->route_to(1);
  EXPECT_EQ(near[0]->route_to(1).find("sysv"), std::string::npos);
  const auto far = connect(2, route_choice::network);
  EXPECT_EQ(far[1]->route_to(0), "tcp over lo");
  EXPECT_EQ(far[1]->route_to(1), "itself");
}

TEST_F(UcxPort, TheUsersTransportsAreUsed) {
  {
    const set_variable tls("UCX_TLS", "tcp,self");
    const auto e = connect(2, route_choice::automatic);
    EXPECT_EQ(e[0]->route_to(1), "tcp over lo");
    exchange(e);
    EXPECT_NE(refusal([] { connect(2, route_choice::shared_memory); }).find("UCX_TLS=tcp,self"), std::string::npos);
  }
  {
    const set_variable tls("UCX_TLS", "posix,self");
    const auto e = connect(2, route_choice::automatic);
    EXPECT_EQ(e[0]->route_to(1), "shared memory (posix)");
    exchange(e);
    EXPECT_NE(refusal([] { connect(2, route_choice::network); }).find("UCX_TLS=posix,self"), std::string::npos);
  }
  {
    const set_variable tls("UCX_TLS", "^sm");
    EXPECT_EQ(connect(2, route_choice::automatic)[0]->route_to(1), "tcp over lo");
  }
  const set_variable tls("UCX_TLS", "^sysv");
  EXPECT_EQ(connect(2, route_choice::automatic)[0]->route_to(1), "shared memory (posix, cma)");
}

TEST_F(UcxPort, EveryProtocolOfUcxBringsTheSameBytes) {
  for (const std::string threshold : {"0", "inf"}) {
    const set_variable rendezvous("UCX_RNDV_THRESH", threshold);
    exchange(connect(2, route_choice::shared_memory));
    exchange(connect(2, route_choice::network));
  }
}

TEST_F(UcxPort, AHeaderThatDoesNotFitTravelsByItself) {
  const set_variable tcp_send("UCX_TCP_TX_SEG_SIZE", "1k");
  const set_variable tcp_receive("UCX_TCP_RX_SEG_SIZE", "1k");
  const set_variable shared("UCX_POSIX_SEG_SIZE", "1k");
  exchange(connect(2, route_choice::shared_memory));
  exchange(connect(2, route_choice::network));
  const set_variable rendezvous("UCX_RNDV_THRESH", "0");
  exchange(connect(2, route_choice::network));
}

TEST_F(UcxPort, PollingMovesTheSameMessages) {
  exchange(connect_over_ucx(2, [](ucx_options& o) { o.poll = o.rank == 0; }));
}

TEST_F(UcxPort, ADeviceThatThereIsNotIsNamed) {
  ucx_options o = options_of(0, 2);
  o.devices = "nosuch0";
  EXPECT_NE(refusal([&] { open_ucx(o); }).find("'nosuch0'"), std::string::npos);
}

TEST_F(UcxPort, AnAddressFromElsewhereIsRefused) {
  const auto port = open_ucx(options_of(0, 2));
  EXPECT_NE(refusal([&] {
              port->connect({port->address(), "HTTP/1.1 400 Bad Request"}, 100ms);
            }).find("rank 1"),
            std::string::npos);
}

TEST_F(UcxPort, APeerThatDoesNotAnswerIsNamed) {
  for (const route_choice routes : {route_choice::shared_memory, route_choice::network}) {
    std::vector<std::unique_ptr<ucx_port>> ports;
    std::vector<std::string> addresses;
    for (int rank = 0; rank < 3; ++rank) {
      ucx_options o = options_of(rank, 3);
      o.routes = routes;
      ports.push_back(open_ucx(o));
      addresses.push_back(ports.back()->address());
    }
    // It waits longer: whoever gives up first is lost to the other.
    auto other = std::async(std::launch::async, [&] { return refusal([&] { ports[1]->connect(addresses, 4s); }); });
    const std::string text = refusal([&] { ports[0]->connect(addresses, 1500ms); });
    EXPECT_NE(text.find("rank 2 does not answer"), std::string::npos) << text;
    other.get();
  }
}

TEST_F(UcxPort, APeerThatIsGoneBeforeItAnswersEndsTheWait) {
  ucx_options o = options_of(0, 2);
  o.routes = route_choice::network;
  const auto mine = open_ucx(o);
  o.rank = 1;
  auto theirs = open_ucx(o);
  const std::string address = theirs->address();
  theirs.reset();
  const auto start = std::chrono::steady_clock::now();
  const std::string text = refusal([&] { mine->connect({mine->address(), address}, patience); });
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - start, patience / 2);
}

/// A rank of another job that was given this job's addresses.
void disturb(const std::vector<std::string>& addresses, route_choice routes, int rank) {
  ucx_options o = options_of(rank, 2);
  o.routes = routes;
  o.token.fill(std::byte{0x66});
  const auto stranger = open_ucx(o);
  EXPECT_NE(refusal([&] { stranger->connect(addresses, 300ms); }).find("does not answer"), std::string::npos);
}

TEST_F(UcxPort, AStrangerGetsNoAnswerAndDoesNoHarm) {
  for (const route_choice routes : {route_choice::shared_memory, route_choice::network}) {
    std::vector<std::unique_ptr<ucx_port>> ports;
    std::vector<std::string> addresses;
    for (int rank = 0; rank < 2; ++rank) {
      ucx_options o = options_of(rank, 2);
      o.routes = routes;
      ports.push_back(open_ucx(o));
      addresses.push_back(ports.back()->address());
    }
    auto other = std::async(std::launch::async, [&] { return ports[1]->connect(addresses, patience); });
    endpoints e;
    e.push_back(ports[0]->connect(addresses, patience));
    e.push_back(other.get());
    std::atomic<int> failures{0};
    for (const auto& each : e)
      each->on_failure([&](int, const std::string&) { ++failures; });

    std::thread intruder([&] { disturb(addresses, routes, 1); });
    exchange(e);
    intruder.join();
    exchange(e);
    EXPECT_GT(e[0]->refused(), 0u);
    EXPECT_EQ(e[0]->traffic_with(1).messages_sent, e[1]->traffic_with(0).messages_received);
    EXPECT_EQ(failures, 0);
    e.clear();
  }
}

} // namespace

} // namespace penstock::transport
