// Blocking transfers: order, pools, large messages in many parts, deadlines.
#include "kernels/check.hpp"
#include "tests/transport/endpoint_kinds.hpp"
#include "tests/transport/reduction.hpp"
#include "transport/in_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace penstock::transport {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr channel base{500};

class Transfers : public ::testing::Test {
protected:
  void connect(int ranks, std::optional<std::uint64_t> shuffle_seed = {}) {
    endpoints = make_in_process_endpoints(ranks, shuffle_seed);
    for (const auto& data : endpoints)
      ends.push_back(std::make_unique<transfers>(*data, base));
  }

  std::vector<std::unique_ptr<endpoint>> endpoints;
  std::vector<std::unique_ptr<transfers>> ends;
  memory_pool from_pool, to_pool;
};

TEST_F(Transfers, ComeInTheOrderSent) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    ends.clear();
    connect(2, seed);
    auto sender = std::async(std::launch::async, [&] {
      for (std::uint64_t i = 0; i < 50; ++i)
        ends[0]->send(1, {std::to_string(i), in_parts(from_pool, contribution_of(0, i, i * 100), i)}, long_enough);
    });
    for (std::uint64_t i = 0; i < 50; ++i) {
      const message m = ends[1]->receive(0, to_pool, long_enough);
      EXPECT_EQ(m.header, std::to_string(i));
      EXPECT_TRUE(bits_of(from_parts(m.parts)) == bits_of(contribution_of(0, i, i * 100)));
    }
    sender.get();
  }
}

class TransfersOverEndpoints : public EndpointTest {};

TEST_P(TransfersOverEndpoints, ManyLargePartsArriveAsTheyWere) {
  const auto connected = make(2);
  memory_pool pool;
  std::vector<part> parts;
  for (std::uint64_t i = 0; i < 12; ++i)
    for (part& p : in_parts(pool, contribution_of(0, i, 200'000), i))
      parts.push_back(std::move(p));
  transfers here(*connected[0], base);
  transfers there(*connected[1], base);
  auto sender = std::async(std::launch::async, [&] {
    here.send(1, {"weights", parts}, long_enough);
    here.send(1, {"the end", {}}, long_enough);
  });
  const message m = there.receive(0, pool, long_enough);
  EXPECT_EQ(m.header, "weights");
  ASSERT_EQ(m.parts.size(), parts.size());
  EXPECT_TRUE(bits_of(from_parts(m.parts)) == bits_of(from_parts(parts)));
  EXPECT_EQ(there.receive(0, pool, long_enough).header, "the end");
  sender.get();
}

INSTANTIATE_TEST_SUITE_P(Each, TransfersOverEndpoints, ::testing::ValuesIn(endpoint_kinds()),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(Transfers, RankZeroGathersInAnyOrderItLikes) {
  connect(4);
  std::vector<std::future<void>> senders;
  for (std::size_t rank = 1; rank < 4; ++rank)
    senders.push_back(std::async(std::launch::async, [this, rank] {
      for (std::uint64_t i = 0; i < 3; ++i)
        ends[rank]->send(0, {{}, in_parts(from_pool, contribution_of(rank, i, 100'000), i)}, long_enough);
    }));
  for (std::uint64_t i = 0; i < 3; ++i)
    for (const std::size_t rank : {2, 3, 1}) {
      const message m = ends[0]->receive(static_cast<int>(rank), to_pool, long_enough);
      EXPECT_TRUE(bits_of(from_parts(m.parts)) == bits_of(contribution_of(rank, i, 100'000)));
    }
  for (auto& sender : senders)
    sender.get();
}

TEST_F(Transfers, PartsComeFromTheCallersPool) {
  connect(2);
  auto sender = std::async(std::launch::async, [&] {
    ends[0]->send(1, {{}, in_parts(from_pool, contribution_of(0, 0, 5'000'000), 0)}, long_enough);
  });
  const message m = ends[1]->receive(0, to_pool, long_enough);
  sender.get();
  EXPECT_GE(to_pool.usage().total_live_bytes, 5'000'000 * 4);
}

TEST_F(Transfers, AnEmptyMessageIsAMessage) {
  connect(2);
  auto sender = std::async(std::launch::async, [&] { ends[0]->send(1, {}, long_enough); });
  const message m = ends[1]->receive(0, to_pool, long_enough);
  sender.get();
  EXPECT_TRUE(m.header.empty());
  EXPECT_TRUE(m.parts.empty());
}

TEST_F(Transfers, ADeadlineNamesTheRankAndTheTime) {
  connect(2);
  try {
    ends[1]->receive(0, to_pool, 20ms);
    FAIL() << "received what was not sent";
  } catch (const error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 0"), HasSubstr("20 ms")));
  }
}

TEST_F(Transfers, WhatComesAfterADeadlineIsReceivedByTheNextCall) {
  connect(2);
  EXPECT_THROW(ends[1]->receive(0, to_pool, 1ms), error);
  auto sender = std::async(std::launch::async, [&] { ends[0]->send(1, {"late", {}}, long_enough); });
  EXPECT_EQ(ends[1]->receive(0, to_pool, long_enough).header, "late");
  sender.get();
}

/// Takes messages and never sends them.
class silent_endpoint final : public endpoint {
public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void send(int, channel, message, completion) override { posted.set_value(); }
  void listen(channel, std::shared_ptr<receiver> taker) override {
    if (taker) posted.set_value();
  }
  void on_failure(failure_handler) override {}
  void flush(std::chrono::milliseconds) override {}
  traffic traffic_with(int) const override { return {}; }
  std::string route_to(int) const override { return {}; }

  std::promise<void> posted; ///< somebody is about to wait
};

/// What a wait in another thread ended with after cancel().
template <typename F>
std::string cancelled(F&& wait) {
  silent_endpoint data;
  transfers to(data, base);
  auto waiting = std::async(std::launch::async, [&]() -> std::string {
    try {
      wait(to);
    } catch (const error& e) {
      return e.what();
    }
    return "nothing";
  });
  data.posted.get_future().wait();
  to.cancel("rank 1 is lost");
  return waiting.get();
}

TEST_F(Transfers, CancellingEndsAWaitAndAllLaterOnes) {
  EXPECT_EQ(cancelled([](transfers& t) { t.send(1, {}, long_enough); }), "rank 1 is lost");
  EXPECT_EQ(cancelled([this](transfers& t) { t.receive(1, to_pool, long_enough); }), "rank 1 is lost");
  silent_endpoint data;
  transfers over(data, base);
  over.cancel("rank 1 is lost");
  EXPECT_THROW(over.send(1, {}, long_enough), error);
  EXPECT_THROW(over.receive(1, to_pool, long_enough), error);
}

TEST_F(Transfers, ASendThatNobodyTakesEndsAtItsDeadline) {
  silent_endpoint data;
  transfers to(data, base);
  try {
    to.send(1, {"hello", {}}, 20ms);
    FAIL() << "sent where nobody takes";
  } catch (const error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 1"), HasSubstr("5 bytes"), HasSubstr("20 ms")));
  }
}

TEST_F(Transfers, ALostPeerFailsASend) {
  connect(2);
  ends[1].reset();
  endpoints[1].reset();
  EXPECT_THROW(ends[0]->send(1, {"hello", {}}, long_enough), error);
}

TEST_F(Transfers, WrongUseIsRefused) {
  connect(2);
  EXPECT_THROW(ends[0]->send(0, {}, long_enough), std::logic_error);
  EXPECT_THROW(ends[0]->send(2, {}, long_enough), std::logic_error);
  EXPECT_THROW(ends[0]->send(1, {std::string(max_header_bytes, 'x'), {}}, long_enough), std::logic_error);
}

} // namespace
} // namespace penstock::transport
