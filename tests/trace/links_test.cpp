// Messages are paired by what names them and measured link by link.
#include "tests/trace/split_run.hpp"
#include "tools/trace/links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace penstock::actors {
namespace {

trace_record message(span_kind kind, int stage, int peer, std::int64_t minibatch, std::int64_t time, int replica = 0) {
  trace_record r;
  r.kind = kind;
  r.stage = static_cast<std::int16_t>(stage);
  r.peer = static_cast<std::int16_t>(peer);
  r.replica = static_cast<std::int16_t>(replica);
  r.minibatch = minibatch;
  r.microbatch = 0;
  r.stretch = 0;
  r.bytes = 1000;
  r.begin_ns = r.end_ns = time;
  return r;
}

TEST(Links, EndsOfAMessageAreFoundInAnyOrder) {
  std::vector<trace_record> records;
  for (int i = 0; i < 50; ++i) {
    records.push_back(message(span_kind::send, 0, 1, i, 100 * i));
    records.push_back(message(span_kind::receive, 1, 0, i, 100 * i + 30));
    records.push_back(message(span_kind::send, 1, 0, i, 100 * i + 40));
    records.push_back(message(span_kind::receive, 0, 1, i, 100 * i + 90));
  }
  std::shuffle(records.begin(), records.end(), std::mt19937(3));
  const auto messages = pair_messages(records);
  ASSERT_EQ(messages.size(), 100U);
  for (const auto& m : messages) {
    ASSERT_NE(m.send, nullptr);
    ASSERT_NE(m.receive, nullptr);
    EXPECT_EQ(m.send->minibatch, m.receive->minibatch);
    EXPECT_EQ(m.transfer_ns(), m.send->stage == 0 ? 30 : 50);
  }
}

TEST(Links, ALoneOrDoubledEndStandsForItself) {
  const std::vector<trace_record> records{
      message(span_kind::send, 0, 1, 3, 10),     message(span_kind::send, 0, 1, 3, 20),
      message(span_kind::receive, 1, 0, 3, 15),  message(span_kind::receive, 1, 0, 4, 16),
      message(span_kind::receive, 0, -1, 3, 17), // from the source, which records nothing
  };
  const auto messages = pair_messages(records);
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0].send, &records[0]);
  EXPECT_EQ(messages[0].receive, &records[2]);
  EXPECT_EQ(messages[1].send, &records[1]);
  EXPECT_EQ(messages[1].receive, nullptr);
  EXPECT_EQ(messages[2].send, nullptr);
}

TEST(Links, BandwidthCountsTimeUnderWayOnce) {
  trace_header header;
  set_stages(header, {1, 1});
  // Two together from 0 to 1000, one alone from 5000 to 6000: 3000 bytes in 2 us.
  const std::vector<trace_record> records{
      message(span_kind::send, 0, 1, 0, 0),       message(span_kind::send, 0, 1, 1, 200),
      message(span_kind::send, 0, 1, 2, 5000),    message(span_kind::receive, 1, 0, 0, 900),
      message(span_kind::receive, 1, 0, 1, 1000), message(span_kind::receive, 1, 0, 2, 6000),
  };
  const auto links = summarize_links(header, pair_messages(records));
  ASSERT_EQ(links.size(), 1U);
  EXPECT_EQ(links[0].messages, 3);
  EXPECT_EQ(links[0].bytes, 3000);
  EXPECT_DOUBLE_EQ(links[0].median_seconds, 900e-9);
  EXPECT_DOUBLE_EQ(links[0].max_seconds, 1000e-9);
  EXPECT_NEAR(links[0].bytes_per_second, 3000 / 2e-6, 1);
}

TEST(Links, TheSlowestIsLookedForBetweenRanks) {
  trace_header header;
  set_stages(header, {1, 2, 1});
  set_ranks(header, {{0}, {0, 1}, {2}});
  std::vector<trace_record> records;
  const auto send = [&](int from, int to, int from_replica, int to_replica, std::int64_t minibatch,
                        std::int64_t takes) {
    records.push_back(message(span_kind::send, from, to, minibatch, 0, from_replica));
    records.push_back(message(span_kind::receive, to, from, minibatch, takes, to_replica));
  };
  send(0, 1, 0, 0, 0, 9000); // within rank 0
  send(0, 1, 0, 1, 1, 500);
  send(1, 2, 0, 0, 0, 400);
  send(1, 2, 1, 0, 1, 700);
  const auto links = summarize_links(header, pair_messages(records));
  ASSERT_EQ(links.size(), 4U);
  const auto* slowest = slowest_link(links);
  ASSERT_NE(slowest, nullptr);
  EXPECT_EQ(slowest->from_rank, 1);
  EXPECT_EQ(slowest->to_rank, 2);
  set_ranks(header, {}); // in one process any link may be
  const auto local = summarize_links(header, pair_messages(records));
  ASSERT_EQ(local.size(), 2U);
  EXPECT_EQ(slowest_link(local)->to_stage, 1);
  EXPECT_EQ(slowest_link({}), nullptr);
}

TEST(Links, TheSlowestMovesTheFewestBytesASecondHoweverLongItsMessagesTake) {
  const std::vector<link_summary> links{
      {.from_stage = 0, .to_stage = 1, .bytes = 90'000, .median_seconds = 1e-3, .bytes_per_second = 42'768e6},
      {.from_stage = 1, .to_stage = 0, .bytes = 90, .median_seconds = 1e-6, .bytes_per_second = 2'749e6},
      {.from_stage = 1, .to_stage = 2, .bytes = 0, .median_seconds = 1}}; // its bytes are not known
  ASSERT_NE(slowest_link(links), nullptr);
  EXPECT_EQ(slowest_link(links)->to_stage, 0);
  EXPECT_EQ(slowest_link({links[2]}), nullptr);
}

} // namespace
} // namespace penstock::actors
