// Every endpoint when something goes wrong: deadlines, peers that are gone, receivers that throw.
#include "kernels/check.hpp"
#include "tests/transport/endpoint_kinds.hpp"

#include <atomic>

namespace penstock::transport {

namespace {

constexpr channel here{21};

/// The failure suite runs over the same endpoints.
class EndpointFailureTest : public EndpointTest {};

/// What is said of a lost peer, by the endpoints that can tell: UCX's shared memory cannot, the control plane does.
class EndpointLossTest : public EndpointTest {};

std::vector<endpoint_kind> kinds_that_report_losses() {
  auto kinds = endpoint_kinds();
  std::erase_if(kinds, [](const endpoint_kind& k) { return !k.reports_losses; });
  return kinds;
}

std::string text(std::exception_ptr e) {
  if (!e) return "";
  try {
    std::rethrow_exception(std::move(e));
  } catch (const std::exception& known) {
    return known.what();
  }
}

/// Keeps what an endpoint says of its peers.
struct losses {
  explicit losses(endpoint& of) {
    of.on_failure([this](int peer, const std::string& what) {
      {
        const std::lock_guard lock(mutex);
        told.emplace_back(peer, what);
      }
      first.notify();
    });
  }
  std::vector<std::pair<int, std::string>> all() {
    const std::lock_guard lock(mutex);
    return told;
  }
  signal first;
  std::mutex mutex;
  std::vector<std::pair<int, std::string>> told;
};

/// Holds up its network's thread at the first message, until it is let go.
class sleeper final : public mailbox {
public:
  void take(int peer, message m) override {
    asleep.notify();
    let_go.wait();
    mailbox::take(peer, std::move(m));
  }
  signal asleep;
  signal let_go;
};

TEST_P(EndpointFailureTest, FlushGivesUpAtItsDeadline) {
  const auto e = make(2);
  const auto busy = std::make_shared<sleeper>();
  e[1]->listen(here, busy);
  e[0]->send(1, here, {"first", {}});
  ASSERT_TRUE(busy->asleep.wait());
  for (unsigned i = 0; i < 4; ++i)
    e[0]->send(1, here, {"large", {patterned(16u << 20u, i)}});
  try {
    e[0]->flush(100ms);
    ADD_FAILURE() << "nobody took the message";
  } catch (const error& late) {
    EXPECT_NE(std::string(late.what()).find("rank 1"), std::string::npos) << late.what();
  }
  busy->let_go.notify();
  EXPECT_NO_THROW(e[0]->flush(patience));
}

TEST_P(EndpointLossTest, ALostPeerIsReportedOnceAndTheOthersGoOn) {
  auto e = make(3);
  losses heard(*e[0]);
  const auto inbox = open_mailbox(*e[1], here);
  e[2].reset();
  ASSERT_TRUE(heard.first.wait());

  std::string why;
  signal told;
  e[0]->send(2, here, {"too late", {patterned(100'000, 1)}}, [&](std::exception_ptr failure) {
    why = text(std::move(failure));
    told.notify();
  });
  ASSERT_TRUE(told.wait());
  EXPECT_NE(why.find("rank 2"), std::string::npos) << why;
  EXPECT_THROW(e[0]->flush(patience), error);

  e[0]->send(1, here, {"still here", {patterned(100'000, 2)}});
  EXPECT_TRUE(has_pattern(inbox->next().content.parts.at(0), 100'000, 2));
  ASSERT_EQ(heard.all().size(), 1u);
  EXPECT_EQ(heard.all()[0].first, 2);
}

TEST_P(EndpointLossTest, AHandlerThatComesLateStillHearsOfALoss) {
  auto e = make(2);
  losses early(*e[0]);
  e[1].reset();
  ASSERT_TRUE(early.first.wait());
  EXPECT_EQ(early.all().size(), 1u);

  auto f = make(2);
  signal dropped;
  f[1].reset();
  // Sends fail from some moment on; then the loss is known.
  const std::function<void(std::exception_ptr)> again = [&](std::exception_ptr why) {
    if (why)
      dropped.notify();
    else
      f[0]->send(1, here, {"x", {}}, again);
  };
  again(nullptr);
  ASSERT_TRUE(dropped.wait());
  losses late(*f[0]);
  EXPECT_TRUE(late.first.wait());
}

TEST_P(EndpointFailureTest, WhatWasFlushedArrivesThoughTheSenderIsGone) {
  auto e = make(2);
  e[0]->send(1, here, {"small", {patterned(10, 1)}});
  e[0]->send(1, here, {"middle", {patterned(15'000, 2)}});
  e[0]->send(1, here, {"large", {patterned(3'000'000, 3)}});
  e[0]->flush(patience);
  e[0].reset();
  const auto inbox = open_mailbox(*e[1], here);
  std::size_t bytes = 0;
  for (int n = 0; n < 3; ++n) {
    for (const part& p : inbox->next().content.parts)
      bytes += p.size;
  }
  EXPECT_EQ(bytes, 3'015'010u);
}

TEST_P(EndpointFailureTest, AnEndpointMayGoWithMessagesUnderWay) {
  auto e = make(2);
  const auto busy = std::make_shared<sleeper>();
  e[1]->listen(here, busy);
  e[0]->send(1, here, {"first", {}});
  ASSERT_TRUE(busy->asleep.wait());
  std::atomic<int> ended{0};
  std::atomic<int> dropped{0};
  for (unsigned i = 0; i < 20; ++i) {
    e[0]->send(1, here, {"", {patterned(i % 2 == 0 ? 64 : 2'000'000, i)}}, [&](std::exception_ptr why) {
      ++ended;
      if (why) ++dropped;
    });
  }
  e[0].reset();
  EXPECT_EQ(ended, 20);
  EXPECT_GT(dropped, 0);
  busy->let_go.notify();
  EXPECT_EQ(busy->next().content.header, "first");
  e[1].reset(); // with messages half received
}

/// Fails on messages in the way its header says.
class misfit final : public mailbox {
public:
  part place(int peer, std::string_view header, std::size_t index, std::size_t bytes) override {
    if (header == "place") throw error("no room for a misfit");
    part p = mailbox::place(peer, header, index, bytes);
    if (header == "size") --p.size;
    if (header == "offset") p.offset = 1;
    return p;
  }
  void take(int peer, message m) override {
    if (m.header == "take") throw error("a misfit takes nothing");
    mailbox::take(peer, std::move(m));
  }
};

TEST_P(EndpointFailureTest, AReceiverThatThrowsFailsThatConnectionOnly) {
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{500'000}}) {
    for (const std::string how : {"place", "size", "offset", "take"}) {
      auto e = make(3);
      losses heard(*e[1]);
      const auto inbox = std::make_shared<misfit>();
      e[1]->listen(here, inbox);
      e[0]->send(1, here, {how, {patterned(bytes, 1)}});
      ASSERT_TRUE(heard.first.wait()) << how;
      EXPECT_EQ(heard.all()[0].first, 0);
      const bool says_why = heard.all()[0].second.find("no room for a misfit") != std::string::npos;
      EXPECT_EQ(says_why, how == "place") << heard.all()[0].second;
      e[0]->send(1, here, {"after the failure", {patterned(10, 2)}});
      e[2]->send(1, here, {"fine", {patterned(10, 2)}});
      EXPECT_EQ(inbox->next().content.header, "fine") << how;
      EXPECT_EQ(heard.all().size(), 1u);
    }
  }
}

TEST_P(EndpointFailureTest, AListenerThatThrowsOnHeldMessagesFailsTheirConnection) {
  const auto e = make(2);
  losses heard(*e[1]);
  e[0]->send(1, here, {"take", {patterned(100, 1)}});
  e[0]->flush(patience);
  e[1]->listen(here, std::make_shared<misfit>());
  ASSERT_TRUE(heard.first.wait());
  EXPECT_EQ(heard.all()[0].first, 0);
}

TEST_P(EndpointFailureTest, ACompletionThatThrowsFailsItsConnection) {
  const auto e = make(2);
  losses heard(*e[0]);
  open_mailbox(*e[1], here);
  e[0]->send(1, here, {"x", {}}, [](std::exception_ptr) { throw error("no use for it"); });
  ASSERT_TRUE(heard.first.wait());
  EXPECT_NE(heard.all()[0].second.find("no use for it"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Over, EndpointFailureTest, testing::ValuesIn(endpoint_kinds()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Over, EndpointLossTest, testing::ValuesIn(kinds_that_report_losses()),
                         [](const auto& tested) { return tested.param.name; });

} // namespace

} // namespace penstock::transport
