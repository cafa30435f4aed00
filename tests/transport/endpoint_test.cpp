// Every endpoint moves every message, whole and once.
#include "tests/transport/endpoint_kinds.hpp"

#include <atomic>
#include <set>
#include <thread>

namespace penstock::transport {

namespace {

constexpr channel here{11};

TEST_P(EndpointTest, EverySizeArrivesUnchanged) {
  const auto e = make(2);
  const auto inbox = open_mailbox(*e[1], here);
  const std::vector<std::size_t> sizes{0,    1,    93,     94,      2047,      2048,      2049,
                                       8185, 8256, 20'553, 100'000, 1u << 20u, 5'000'001, 64u << 20u};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    e[0]->send(1, here, {std::to_string(i), {patterned(sizes[i], static_cast<unsigned>(i))}});
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    const received r = inbox->next();
    ASSERT_EQ(r.peer, 0);
    const std::size_t i = std::stoul(r.content.header);
    ASSERT_EQ(r.content.parts.size(), 1u);
    EXPECT_TRUE(has_pattern(r.content.parts[0], sizes[i], static_cast<unsigned>(i))) << sizes[i] << " bytes";
  }
}

TEST_P(EndpointTest, ManyPartsKeepTheirOrder) {
  const auto e = make(2);
  const auto inbox = open_mailbox(*e[1], here);
  const std::vector<std::size_t> cycle{0, 1, 5'000, 0, 100'000, 17};
  message m{"many", {}};
  for (unsigned i = 0; i < 300; ++i)
    m.parts.push_back(patterned(cycle[i % cycle.size()], i));
  e[0]->send(1, here, std::move(m));
  const received r = inbox->next();
  ASSERT_EQ(r.content.parts.size(), 300u);
  for (unsigned i = 0; i < 300; ++i)
    EXPECT_TRUE(has_pattern(r.content.parts[i], cycle[i % cycle.size()], i)) << "part " << i;
}

TEST_P(EndpointTest, HeadersOfEveryLengthArrive) {
  const auto e = make(2);
  const auto inbox = open_mailbox(*e[1], here);
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{500}, max_header_bytes}) {
    e[0]->send(1, here, {std::string(length, 'h'), {}});
    e[0]->send(1, here, {std::string(length, 'h'), {patterned(10, 1), patterned(30'000, 2)}});
    std::multiset<std::size_t> parts;
    for (int i = 0; i < 2; ++i) {
      const received r = inbox->next();
      EXPECT_EQ(r.content.header, std::string(length, 'h'));
      parts.insert(r.content.parts.size());
    }
    EXPECT_EQ(parts, (std::multiset<std::size_t>{0, 2}));
  }
}

TEST_P(EndpointTest, WhatCannotBeSentIsRefusedAtOnce) {
  const auto e = make(2);
  EXPECT_THROW(e[0]->send(1, here, {std::string(max_header_bytes + 1, 'h'), {}}), std::logic_error);
  for (const int nobody : {-1, 0, 2})
    EXPECT_THROW(e[0]->send(nobody, here, {"x", {}}), std::logic_error) << nobody;
  part beyond = patterned(10, 1);
  beyond.size = 100;
  EXPECT_THROW(e[0]->send(1, here, {"x", {beyond}}), std::logic_error);
  EXPECT_NO_THROW(e[0]->flush(patience));
}

TEST_P(EndpointTest, TenThousandSmallMessagesArriveOnceEach) {
  constexpr unsigned count = 10'000;
  const auto e = make(2);
  const auto inbox = open_mailbox(*e[1], here);
  for (unsigned i = 0; i < count; ++i)
    e[0]->send(1, here, {std::to_string(i), {patterned(i % 200, i)}});
  std::vector<int> times(count);
  for (unsigned n = 0; n < count; ++n) {
    const received r = inbox->next();
    const auto i = static_cast<unsigned>(std::stoul(r.content.header));
    ASSERT_LT(i, count);
    ++times[i];
    ASSERT_TRUE(has_pattern(r.content.parts[0], i % 200, i)) << "message " << i;
  }
  EXPECT_EQ(times, std::vector<int>(count, 1));
}

TEST_P(EndpointTest, TrafficInBothDirectionsDoesNotBlockItself) {
  constexpr unsigned count = 40;
  const auto e = make(2);
  const std::vector inboxes{open_mailbox(*e[0], here), open_mailbox(*e[1], here)};
  for (unsigned i = 0; i < count; ++i) {
    for (const int rank : {0, 1})
      e[static_cast<std::size_t>(rank)]->send(1 - rank, here, {std::to_string(i), {patterned(1'500'000, i)}});
  }
  for (const auto& inbox : inboxes) {
    for (unsigned n = 0; n < count; ++n) {
      const received r = inbox->next();
      EXPECT_TRUE(has_pattern(r.content.parts[0], 1'500'000, static_cast<unsigned>(std::stoul(r.content.header))));
    }
  }
}

TEST_P(EndpointTest, ThreeRanksReachEachOther) {
  const auto e = make(3);
  std::vector<std::shared_ptr<mailbox>> inboxes;
  for (const auto& each : e)
    inboxes.push_back(open_mailbox(*each, here));
  for (const auto& from : e) {
    for (const auto& to : e) {
      if (from == to) continue;
      const auto seed = static_cast<unsigned>(10 * from->rank() + to->rank());
      from->send(to->rank(), here, {"", {patterned(50'000, seed)}});
    }
  }
  for (const auto& at : e) {
    std::set<int> senders;
    for (int n = 0; n < 2; ++n) {
      const received r = inboxes[static_cast<std::size_t>(at->rank())]->next();
      senders.insert(r.peer);
      EXPECT_TRUE(has_pattern(r.content.parts[0], 50'000, static_cast<unsigned>(10 * r.peer + at->rank())));
    }
    EXPECT_EQ(senders.size(), 2u);
    EXPECT_FALSE(senders.contains(at->rank()));
  }
}

TEST_P(EndpointTest, MessagesBeforeTheListenerAreHeldForIt) {
  const auto e = make(2);
  const auto other = open_mailbox(*e[1], channel{12});
  for (unsigned i = 0; i < 5; ++i)
    e[0]->send(1, here, {std::to_string(i), {patterned(70'000, i), patterned(0, i), patterned(40, i)}});
  e[0]->flush(patience); // needs no listener
  e[0]->send(1, channel{12}, {"other", {}});
  EXPECT_EQ(other->next().content.header, "other");

  const auto inbox = open_mailbox(*e[1], here);
  for (int n = 0; n < 5; ++n) {
    const received r = inbox->next();
    const auto i = static_cast<unsigned>(std::stoul(r.content.header));
    EXPECT_TRUE(has_pattern(r.content.parts[0], 70'000, i));
    EXPECT_EQ(r.content.parts[1].size, 0u);
    EXPECT_TRUE(has_pattern(r.content.parts[2], 40, i));
  }
  EXPECT_EQ(other->count(), 0u);
}

TEST_P(EndpointTest, MessagesAfterTheListenerIsGoneAreHeldForTheNext) {
  const auto e = make(2);
  const auto first = open_mailbox(*e[1], here);
  e[0]->send(1, here, {"one", {patterned(9, 1)}});
  EXPECT_EQ(first->next().content.header, "one");
  e[1]->listen(here, nullptr);
  e[0]->send(1, here, {"two", {patterned(30'000, 2)}});
  e[0]->flush(patience);
  const auto second = open_mailbox(*e[1], here);
  const received r = second->next();
  EXPECT_EQ(r.content.header, "two");
  EXPECT_TRUE(has_pattern(r.content.parts[0], 30'000, 2));
  EXPECT_EQ(first->count(), 0u);
}

/// Stops listening once a message has been announced.
class deserter final : public mailbox {
public:
  explicit deserter(endpoint& at) : at_(at) {}
  part place(int peer, std::string_view header, std::size_t index, std::size_t bytes) override {
    at_.listen(here, nullptr);
    has_placed.notify();
    return mailbox::place(peer, header, index, bytes);
  }
  signal has_placed;

private:
  endpoint& at_;
};

TEST_P(EndpointTest, AMessageWhoseListenerLeavesMidwayIsHeld) {
  const auto e = make(2);
  const auto leaver = std::make_shared<deserter>(*e[1]);
  e[1]->listen(here, leaver);
  e[0]->send(1, here, {"midway", {patterned(300'000, 3)}});
  ASSERT_TRUE(leaver->has_placed.wait());
  e[0]->flush(patience);
  EXPECT_EQ(leaver->count(), 0u);
  const received r = open_mailbox(*e[1], here)->next();
  EXPECT_EQ(r.content.header, "midway");
  EXPECT_TRUE(has_pattern(r.content.parts[0], 300'000, 3));
}

TEST_P(EndpointTest, SeveralThreadsMaySend) {
  constexpr unsigned threads = 4;
  constexpr unsigned each = 200;
  const auto e = make(2);
  const auto inbox = open_mailbox(*e[1], here);
  std::vector<std::thread> senders;
  for (unsigned t = 0; t < threads; ++t) {
    senders.emplace_back([&, t] {
      for (unsigned i = 0; i < each; ++i)
        e[0]->send(1, here, {std::to_string(t * each + i), {patterned(3'000, t * each + i)}});
    });
  }
  std::set<unsigned> seen;
  for (unsigned n = 0; n < threads * each; ++n) {
    const received r = inbox->next();
    const auto i = static_cast<unsigned>(std::stoul(r.content.header));
    seen.insert(i);
    EXPECT_TRUE(has_pattern(r.content.parts[0], 3'000, i));
  }
  for (auto& t : senders)
    t.join();
  EXPECT_EQ(seen.size(), threads * each);
}

/// Sends every message back from the network's thread.
class reflector final : public mailbox {
public:
  explicit reflector(endpoint& at) : at_(at) {}
  void take(int peer, message m) override { at_.send(peer, here, std::move(m)); }

private:
  endpoint& at_;
};

TEST_P(EndpointTest, AReceiverMayAnswer) {
  const auto e = make(2);
  const auto inbox = open_mailbox(*e[0], here);
  e[1]->listen(here, std::make_shared<reflector>(*e[1]));
  for (unsigned i = 0; i < 20; ++i) {
    e[0]->send(1, here, {"there and back", {patterned(25'000 * i, i)}});
    EXPECT_TRUE(has_pattern(inbox->next().content.parts.at(0), 25'000 * i, i));
  }
}

/// Gives out slices of one buffer, to see that bytes land there and nowhere else.
class slicer final : public mailbox {
public:
  slicer() : whole(patterned(400'000, 99)) {}
  part place(int, std::string_view, std::size_t index, std::size_t bytes) override {
    return {whole.storage, 1000 + index * 150'000, bytes};
  }
  const part whole;
};

TEST_P(EndpointTest, PartsLandWhereTheReceiverSays) {
  const auto e = make(2);
  const auto inbox = std::make_shared<slicer>();
  e[1]->listen(here, inbox);
  e[0]->send(1, here, {"", {patterned(100, 1), patterned(140'000, 2)}});
  const received r = inbox->next();
  ASSERT_EQ(r.content.parts.size(), 2u);
  EXPECT_EQ(r.content.parts[0].data(), inbox->whole.storage.data() + 1000);
  EXPECT_EQ(r.content.parts[1].data(), inbox->whole.storage.data() + 151'000);
  EXPECT_TRUE(has_pattern(r.content.parts[0], 100, 1));
  EXPECT_TRUE(has_pattern(r.content.parts[1], 140'000, 2));
  const part untouched = patterned(400'000, 99);
  const auto same = [&](std::size_t from, std::size_t to) {
    return std::equal(untouched.storage.data() + from, untouched.storage.data() + to,
                      inbox->whole.storage.data() + from);
  };
  EXPECT_TRUE(same(3, 1000));
  EXPECT_TRUE(same(1100, 151'000));
  EXPECT_TRUE(same(291'000, 400'000));
}

TEST_P(EndpointTest, CompletionsComeOnceAndBeforeFlushReturns) {
  const auto e = make(2);
  open_mailbox(*e[1], here);
  std::atomic<int> sent{0};
  std::atomic<int> failed{0};
  std::vector<part> parts;
  for (unsigned i = 0; i < 50; ++i) {
    parts.push_back(patterned(20'000 * (i % 4), i));
    e[0]->send(1, here, {"", {parts.back()}}, [&](std::exception_ptr why) { ++(why ? failed : sent); });
  }
  e[0]->flush(patience);
  EXPECT_EQ(sent, 50);
  EXPECT_EQ(failed, 0);
}

TEST_P(EndpointTest, ABufferIsFreeWhenItsCompletionComes) {
  const auto e = make(2);
  open_mailbox(*e[1], here);
  const part mine = patterned(200'000, 1);
  message m; // built by hand: a list in braces would keep a copy of its own
  m.parts.push_back(mine);
  std::atomic<long> handles{0};
  signal told;
  e[0]->send(1, here, std::move(m), [&](std::exception_ptr) {
    handles = mine.storage.use_count();
    told.notify();
  });
  ASSERT_TRUE(told.wait());
  EXPECT_EQ(handles, 1);
}

TEST_P(EndpointTest, TrafficIsCountedByPeer) {
  const auto e = make(3);
  const auto inbox = open_mailbox(*e[1], here);
  e[0]->send(1, here, {"four", {patterned(1000, 1), patterned(96, 2)}});
  e[0]->send(1, here, {"", {}});
  inbox->next();
  inbox->next();
  e[0]->flush(patience);
  EXPECT_EQ(e[0]->traffic_with(1).messages_sent, 2u);
  EXPECT_EQ(e[0]->traffic_with(1).bytes_sent, 1100u);
  EXPECT_EQ(e[1]->traffic_with(0).messages_received, 2u);
  EXPECT_EQ(e[1]->traffic_with(0).bytes_received, 1100u);
  EXPECT_EQ(e[1]->traffic_with(0).messages_sent, 0u);
  EXPECT_EQ(e[0]->traffic_with(2).messages_sent, 0u);
  EXPECT_EQ(e[0]->refused(), 0u);
}

TEST_P(EndpointTest, OneRankAloneHasNothingToDo) {
  const auto e = make(1);
  EXPECT_EQ(e[0]->rank(), 0);
  EXPECT_EQ(e[0]->size(), 1);
  EXPECT_NO_THROW(e[0]->flush(patience));
  EXPECT_THROW(e[0]->send(0, here, {"x", {}}), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Over, EndpointTest, testing::ValuesIn(endpoint_kinds()),
                         [](const auto& tested) { return tested.param.name; });

} // namespace

} // namespace penstock::transport
