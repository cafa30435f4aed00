// Rank 0's rules on a clock of the test's own: who may come, what goes where, and what counts as the first cause.
#include "transport/control/clock_estimate.hpp"
#include "transport/control/hub.hpp"
#include "transport/control/log_limiter.hpp"
#include "transport/control/verdict.hpp"
#include "transport/control/words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using time_point = hub::time;

/// A hub of three ranks whose frames are kept.
class HubTest : public ::testing::Test {
protected:
  struct sent {
    std::vector<int> to;
    frame what;
  };

  static hello hello_of(int rank, int size = 3) {
    return {.rank = rank, .size = size, .who = {.host = "n" + std::to_string(rank), .process = 100 + rank}};
  }

  void join(int rank) {
    ASSERT_TRUE(rules.meet(hello_of(rank), now).admitted);
    rules.seated(rank);
  }
  void join_all() {
    rules.seated(0);
    join(1);
    join(2);
    frames.clear();
  }
  /// Time passes in steps of 20 ms, in which these ranks say what they are doing.
  void pass(std::chrono::milliseconds span, const std::vector<int>& alive) {
    for (const auto end = now + span; now < end;) {
      now += 20ms;
      for (const int rank : alive)
        rules.heard(rank, now);
      rules.tick(now);
    }
  }
  std::string verdict() const { return rules.verdict() ? rules.verdict()->text : "none"; }
  std::vector<sent> of_kind(frame_kind kind) const {
    std::vector<sent> found;
    for (const auto& f : frames)
      if (f.what.kind == kind) found.push_back(f);
    return found;
  }

  time_point now{std::chrono::hours(1)};
  std::vector<sent> frames;
  hub rules{{.silence = 1s, .join_deadline = 10s}, hello_of(0), now, [this](const auto& to, const frame& f) {
              frames.push_back({to, f});
            }};
};

TEST_F(HubTest, AllAreWelcomedWhenTheLastHasCome) {
  rules.seated(0);
  join(2);
  EXPECT_THAT(frames, IsEmpty());
  EXPECT_FALSE(rules.all_met());
  join(1);
  EXPECT_TRUE(rules.all_met());
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_THAT(frames[0].to, ElementsAre(0, 1, 2));
  const auto members = decode_members(frames[0].what.payload);
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(members[2].host, "n2");
}

TEST_F(HubTest, StrangeHellosAreRefusedAndHarmNobody) {
  join_all();
  const auto refused = [&](const hello& h) {
    const auto a = rules.meet(h, now);
    EXPECT_FALSE(a.admitted);
    EXPECT_EQ(a.reply.kind, frame_kind::refused);
    return a.reply.payload;
  };
  EXPECT_THAT(refused(hello_of(1)), HasSubstr("rank 1 is taken by process 101 on n1"));
  EXPECT_THAT(refused(hello_of(0)), HasSubstr("rank 0 is taken by process 100 on n0"));
  EXPECT_THAT(refused(hello_of(3)), HasSubstr("no rank 3 in a job of 3 ranks"));
  EXPECT_THAT(refused(hello_of(-1)), HasSubstr("no rank -1"));
  auto other = hello_of(1);
  other.protocol = 99;
  EXPECT_THAT(refused(other), HasSubstr("protocol 99"));
  EXPECT_EQ(verdict(), "none");
  EXPECT_THAT(frames, IsEmpty());
}

TEST_F(HubTest, RanksOfAnotherGenerationAreTurnedAwayAndHarmNobody) {
  hub later{{.silence = 1s, .join_deadline = 10s},
            {.rank = 0, .size = 2, .generation = 1},
            now,
            [](const auto&, const frame&) {}};
  const auto late = later.meet(hello_of(1), now);
  EXPECT_FALSE(late.admitted);
  EXPECT_EQ(late.reply.kind, frame_kind::refused);
  EXPECT_THAT(late.reply.payload, HasSubstr("gone on without it"));
  const auto early = later.meet({.rank = 0, .size = 1, .generation = 2}, now);
  EXPECT_FALSE(early.admitted);
  EXPECT_EQ(early.reply.kind, frame_kind::too_early);
  EXPECT_FALSE(later.verdict());
  EXPECT_TRUE(later.meet({.rank = 1, .size = 2, .generation = 1}, now).admitted);
}

TEST_F(HubTest, WhoComesAfterAFailureIsToldTheCause) {
  rules.seated(0);
  join(1);
  auto other = hello_of(2);
  other.facts = {{"binary", "x"}};
  const auto answer = rules.meet(other, now);
  EXPECT_FALSE(answer.admitted);
  EXPECT_EQ(answer.reply.kind, frame_kind::failed);
  EXPECT_EQ(answer.reply.payload, "'binary' differs: rank 0 has nothing, rank 2 has 'x'");
  EXPECT_EQ(verdict(), answer.reply.payload);
  EXPECT_TRUE(rules.all_met());
  EXPECT_THAT(of_kind(frame_kind::failed).at(0).to, ElementsAre(0, 1));
}

TEST_F(HubTest, RanksThatDoNotComeAreNamedWithWhoWasTurnedAway) {
  rules.seated(0);
  rules.turned_away("10.0.0.9:1234: the job's secret differs");
  pass(9900ms, {});
  EXPECT_EQ(verdict(), "none");
  pass(200ms, {});
  EXPECT_EQ(verdict(), "ranks 1, 2 never came: 1 of 3 ranks were there after 10 s; last turned away: 10.0.0.9:1234: "
                       "the job's secret differs");
  EXPECT_EQ(rules.verdict()->rank, 1);
  EXPECT_THAT(rules.verdict()->also_lost, ElementsAre(2));
  EXPECT_THAT(failure_of(of_kind(frame_kind::lost).at(0).what).also_lost, ElementsAre(2));
}

TEST_F(HubTest, BlobsGoToAllOthersAndMessagesToOne) {
  join_all();
  rules.take(1, {.kind = frame_kind::blob, .name = "b", .payload = "x"}, now);
  rules.take(2, {.kind = frame_kind::message, .rank = 1, .name = "t", .payload = "y"}, now);
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_THAT(frames[0].to, ElementsAre(0, 2));
  EXPECT_EQ(frames[0].what.rank, 1);
  EXPECT_THAT(frames[1].to, ElementsAre(1));
  EXPECT_EQ(frames[1].what.rank, 2);
}

TEST_F(HubTest, TheFirstCauseStandsAndIsToldToAllOnce) {
  join_all();
  rules.take(2, {.kind = frame_kind::failed, .payload = "the disk is full"}, now);
  rules.take(1, {.kind = frame_kind::failed, .payload = "no more data"}, now);
  rules.closed(2, now);
  EXPECT_EQ(verdict(), "rank 2 (host n2): the disk is full");
  EXPECT_FALSE(rules.verdict()->lost);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_THAT(frames[0].to, ElementsAre(0, 1, 2));
}

TEST_F(HubTest, AClosedConnectionIsALostRank) {
  join_all();
  rules.take(1, {.kind = frame_kind::pulse, .payload = "training\nminibatch 7"}, now);
  rules.closed(1, now);
  EXPECT_EQ(verdict(), "rank 1 (host n1, process 101) ended without a word; it was training minibatch 7");
  EXPECT_TRUE(rules.verdict()->lost);
  EXPECT_EQ(rules.verdict()->rank, 1);
  EXPECT_THAT(frames.at(0).to, ElementsAre(0, 1, 2)); // the line of rank 1 drops it
}

TEST_F(HubTest, ASilentRankIsLostAfterTheSilence) {
  join_all();
  pass(900ms, {1});
  EXPECT_EQ(verdict(), "none");
  pass(200ms, {1});
  EXPECT_EQ(verdict(), "rank 2 (host n2, process 102) has said nothing for 1 s");
}

TEST_F(HubTest, RankZeroPulsesTenTimesInASilence) {
  join_all();
  rules.take(0, {.kind = frame_kind::pulse, .payload = "evaluating"}, now);
  pass(1s, {1, 2});
  const auto pulses = of_kind(frame_kind::pulse);
  EXPECT_GE(pulses.size(), 9U);
  EXPECT_LE(pulses.size(), 11U);
  EXPECT_THAT(pulses[0].to, ElementsAre(1, 2));
  EXPECT_EQ(pulses[0].what.payload, "evaluating");
}

TEST_F(HubTest, AHubThatWasStoppedBlamesNobodyForItsOwnSleep) {
  join_all();
  pass(200ms, {1, 2});
  now += 30s;
  rules.tick(now);
  EXPECT_EQ(verdict(), "none");
  pass(2s, {1, 2});
  EXPECT_EQ(verdict(), "none");
  pass(1100ms, {2});
  EXPECT_THAT(verdict(), HasSubstr("rank 1 (host n1, process 101) has said nothing"));
}

TEST_F(HubTest, RankZeroThatWakesUpLearnsThatItWasTheCause) {
  join_all();
  now += 30s;
  rules.take(1,
             {.kind = frame_kind::lost, .rank = 0, .payload = "rank 0 (host n0, process 100) has said nothing for 1 s"},
             now);
  rules.closed(1, now);
  rules.tick(now);
  EXPECT_EQ(verdict(), "rank 0 (host n0, process 100) has said nothing for 1 s");
  EXPECT_EQ(rules.verdict()->rank, 0);
}

TEST_F(HubTest, ASuspicionWaitsForSomethingBetter) {
  join_all();
  rules.take(2, {.kind = frame_kind::pulse, .payload = "sending"}, now);
  rules.take(0, {.kind = frame_kind::suspect, .rank = 2, .payload = "connection reset"}, now);
  ASSERT_TRUE(rules.next_suspicion());
  EXPECT_EQ(*rules.next_suspicion(), now + 300ms);
  pass(200ms, {1, 2});
  EXPECT_EQ(verdict(), "none");
  pass(200ms, {1, 2});
  EXPECT_EQ(verdict(),
            "the data connection from rank 0 to rank 2 (host n2) broke: connection reset; rank 2 was sending");
  EXPECT_EQ(rules.verdict()->rank, 2);
  EXPECT_FALSE(rules.next_suspicion());
}

TEST_F(HubTest, ThePeersOwnWordIsBetterThanASuspicion) {
  join_all();
  rules.take(0, {.kind = frame_kind::suspect, .rank = 2, .payload = "connection reset"}, now);
  pass(100ms, {1, 2});
  rules.take(2, {.kind = frame_kind::failed, .payload = "out of memory"}, now);
  pass(1s, {1, 2});
  EXPECT_EQ(verdict(), "rank 2 (host n2): out of memory");
}

TEST_F(HubTest, ARankThatHasLeftIsNeverLost) {
  join_all();
  rules.take(0, {.kind = frame_kind::suspect, .rank = 2, .payload = "connection reset"}, now);
  rules.take(2, {.kind = frame_kind::leave}, now);
  rules.take(1, {.kind = frame_kind::suspect, .rank = 2, .payload = "connection reset"}, now);
  pass(500ms, {1, 2}); // it still pulses,
  pass(20s, {1});      // and then it does not
  rules.closed(2, now);
  pass(20s, {1});
  EXPECT_EQ(verdict(), "none");
  rules.take(0, {.kind = frame_kind::leave}, now);
  EXPECT_FALSE(rules.over());
  rules.take(1, {.kind = frame_kind::leave}, now);
  EXPECT_TRUE(rules.over());
  EXPECT_THAT(of_kind(frame_kind::all_left).at(0).to, ElementsAre(0, 1));
  rules.closed(1, now);
  rules.take(0, {.kind = frame_kind::failed, .payload = "too late"}, now);
  EXPECT_EQ(verdict(), "none");
}

TEST_F(HubTest, AFrameThatMakesNoSenseIsItsSendersFault) {
  join_all();
  rules.take(1, {.kind = frame_kind::message, .rank = 7, .name = "t"}, now);
  EXPECT_THAT(verdict(), HasSubstr("rank 1 (host n1, process 101) sent what is no part of the control protocol"));
}

TEST_F(HubTest, APingIsAnsweredWithTheHubsClock) {
  join_all();
  rules.take(1, {.kind = frame_kind::ping, .sent_ns = 42}, now);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].what.sent_ns, 42);
  EXPECT_EQ(frames[0].what.answered_ns, 3'600'000'000'000);
}

TEST(ClockEstimate, KeepsTheAnswerThatLeavesTheLeastDoubt) {
  clock_estimate e;
  EXPECT_EQ(e.offset_ns(), 0);
  e.add(1'000'000, 501'100'000, 1'400'000); // 400 us there and back: off by up to 200 us
  EXPECT_EQ(e.offset_ns(), 499'900'000);
  e.add(2'000'000, 502'010'000, 2'020'000); // 20 us
  EXPECT_EQ(e.offset_ns(), 500'000'000);
  e.add(3'000'000, 503'900'000, 4'000'000); // 1 ms: worse, and the best is young
  EXPECT_EQ(e.offset_ns(), 500'000'000);
  e.add(5'000'000, 1, 4'000'000); // a clock never goes back: no answer of this clock
  EXPECT_EQ(e.offset_ns(), 500'000'000);
}

TEST(ClockEstimate, FollowsADriftOverAnHour) {
  // This clock is 20 millionths slow and answers take 100 to 1100 us, all of it on the way back: the worst case.
  clock_estimate e;
  std::int64_t worst = 0;
  for (std::int64_t i = 0; i < 1800; ++i) {
    const std::int64_t asked = i * 2'000'000'000;
    const std::int64_t offset = 7'000'000'000 + asked / 50'000;
    const std::int64_t round_trip = 100'000 + (i * 7919 % 11) * 100'000;
    e.add(asked, asked + offset, asked + round_trip);
    worst = std::max(worst, std::abs(e.offset_ns() - offset));
  }
  EXPECT_LT(worst, 600'000);
}

TEST(LogLimiter, AFloodIsAFewLinesAndACount) {
  std::vector<std::string> lines;
  log_limiter log([&](const std::string& l) { lines.push_back(l); });
  time_point now{std::chrono::hours(1)};
  for (int i = 0; i < 1000; ++i)
    log.write("[control] turned away", now += 1ms);
  EXPECT_EQ(lines.size(), static_cast<std::size_t>(log_limiter::most_lines));
  log.look(now += log_limiter::period);
  EXPECT_EQ(lines.back(), "[control] ... and 990 more connections turned away");
  log.write("the next", now);
  EXPECT_EQ(lines.back(), "the next");
}

TEST(Words, TextFromElsewhereStaysOnOneLineAndWholeInUtf8) {
  EXPECT_EQ(one_line("a\nb\r\x1b[31mc\x7f", 100), "a b  [31mc ");
  EXPECT_EQ(one_line("abcdefghij", 6), "abc...");
  EXPECT_EQ(one_line("ab\xc3\xa4\xc3\xa4\xc3\xa4", 7), "ab\xc3\xa4...");
  EXPECT_EQ(one_line("ab\xc3\xa4\xc3\xa4\xc3\xa4", 6), "ab...");
  EXPECT_EQ(text_of(5s), "5 s");
  EXPECT_EQ(text_of(300ms), "300 ms");
}

} // namespace
} // namespace penstock::transport
