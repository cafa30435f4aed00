// Ranks that are threads of one process talk, fail and leave as ranks of a job do.
#include "kernels/check.hpp"
#include "transport/in_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace penstock::transport {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Runs `act` as every rank, each on a thread, and rethrows what the first of them threw.
void on_all(const std::vector<std::unique_ptr<control_plane>>& planes, const std::function<void(control_plane&)>& act) {
  std::vector<std::future<void>> running;
  for (const auto& p : planes)
    running.push_back(std::async(std::launch::async, [&act, &p] { act(*p); }));
  for (auto& r : running)
    r.get();
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const error& e) {
    return e.what();
  }
  return "no error";
}

TEST(InProcessControl, EveryRankGetsEverybodysBlobs) {
  const auto planes = make_in_process_control(4);
  on_all(planes, [](control_plane& p) {
    const auto all = p.all_gather("names", "rank " + std::to_string(p.rank()), 10s);
    EXPECT_THAT(all, ElementsAre("rank 0", "rank 1", "rank 2", "rank 3"));
    EXPECT_EQ(p.broadcast("plan", p.rank() == 0 ? "two stages" : "", 10s), "two stages");
    EXPECT_EQ(p.members().size(), 4U);
    EXPECT_EQ(p.clock_offset_ns(), 0);
    p.leave(10s);
  });
}

TEST(InProcessControl, MessagesKeepTheirOrderAndWaitForTheirHandler) {
  const auto planes = make_in_process_control(3);
  constexpr int count = 1000;
  for (int i = 0; i < count; ++i) {
    planes[1]->send(2, "steps", std::to_string(i));
    planes[0]->send(2, "steps", std::to_string(i));
    planes[2]->send(2, "steps", std::to_string(i));
  }
  std::vector<int> next(3, 0);
  std::promise<void> all_came;
  planes[2]->on_message("steps", [&](int from, std::string_view text) {
    EXPECT_EQ(text, std::to_string(next[static_cast<std::size_t>(from)]++));
    if (next == std::vector<int>(3, count)) all_came.set_value();
  });
  EXPECT_EQ(all_came.get_future().wait_for(10s), std::future_status::ready);
  on_all(planes, [](control_plane& p) { p.leave(10s); });
}

TEST(InProcessControl, ARankThatFailsIsTheFirstCauseForAll) {
  const auto planes = make_in_process_control(3);
  planes[2]->fail("the disk is full");
  on_all(planes, [](control_plane& p) {
    EXPECT_EQ(error_of([&] { p.all_gather("never", "", 10s); }),
              "rank 2 (host " + p.members()[2].host + "): the disk is full");
  });
  planes[1]->fail("something later");
  const auto cause = planes[0]->failure();
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->rank, 2);
  EXPECT_FALSE(cause->lost);
}

TEST(InProcessControl, ARankThatIsDestroyedDied) {
  auto planes = make_in_process_control(3);
  std::promise<job_failure> told;
  planes[0]->on_failure([&](const job_failure& f) { told.set_value(f); });
  planes[1]->doing("training minibatch 7");
  planes[1].reset();
  auto future = told.get_future();
  ASSERT_EQ(future.wait_for(10s), std::future_status::ready);
  const auto cause = future.get();
  EXPECT_EQ(cause.rank, 1);
  EXPECT_TRUE(cause.lost);
  EXPECT_THAT(cause.text, AllOf(HasSubstr("rank 1 (host " + planes[0]->members()[1].host + ", process "),
                                HasSubstr("ended without a word"), HasSubstr("it was training minibatch 7")));
  EXPECT_EQ(error_of([&] { planes[2]->leave(10s); }), cause.text);
}

TEST(InProcessControl, AFailureIsToldAtOnceToALateHandler) {
  auto planes = make_in_process_control(2);
  planes[0].reset();
  EXPECT_NE(error_of([&] { planes[1]->leave(10s); }), "no error");
  std::promise<int> told;
  planes[1]->on_failure([&](const job_failure& f) { told.set_value(f.rank); });
  auto future = told.get_future();
  ASSERT_EQ(future.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(future.get(), 0);
}

TEST(InProcessControl, ASuspicionBlamesThePeerUnlessItSpeaksUp) {
  {
    const auto planes = make_in_process_control(3);
    planes[2]->doing("sending activations");
    planes[0]->suspect(2, "connection reset");
    EXPECT_EQ(error_of([&] { planes[1]->leave(10s); }),
              "the data connection from rank 0 to rank 2 (host " + planes[2]->members()[2].host +
                  ") broke: connection reset; rank 2 was sending activations");
  }
  const auto planes = make_in_process_control(3);
  planes[0]->suspect(2, "connection reset");
  planes[2]->fail("out of memory");
  EXPECT_EQ(error_of([&] { planes[1]->leave(10s); }),
            "rank 2 (host " + planes[2]->members()[2].host + "): out of memory");
}

TEST(InProcessControl, AWaitEndsAtItsDeadlineAndNamesWhoIsMissing) {
  const auto planes = make_in_process_control(2);
  EXPECT_EQ(error_of([&] { planes[0]->all_gather("sizes", "", 20ms); }),
            "[control] rank 1 (host " + planes[0]->members()[1].host + ") has not sent its 'sizes' within 20 ms");
  EXPECT_EQ(error_of([&] { planes[1]->broadcast("plan", "", 20ms); }),
            "[control] rank 0 (host " + planes[0]->members()[0].host + ") has not sent its 'plan' within 20 ms");
  EXPECT_THAT(error_of([&] { planes[1]->leave(20ms); }), HasSubstr("within 20 ms"));
}

TEST(InProcessControl, AHandlerThatThrowsFailsTheJob) {
  const auto planes = make_in_process_control(2);
  planes[1]->on_message("work", [](int, std::string_view) { throw error("bad plan"); });
  planes[0]->send(1, "work", "");
  EXPECT_EQ(error_of([&] { planes[0]->leave(10s); }),
            "rank 1 (host " + planes[1]->members()[1].host + "): its handler of 'work' messages: bad plan");
}

TEST(InProcessControl, MisuseIsABrokenInvariant) {
  const auto planes = make_in_process_control(1);
  EXPECT_THROW(planes[0]->send(1, "t", ""), std::logic_error);
  EXPECT_THROW(planes[0]->suspect(0, "me"), std::logic_error);
  planes[0]->all_gather("once", "", 10s);
  EXPECT_THROW(planes[0]->all_gather("once", "", 10s), std::logic_error);
  EXPECT_THROW(planes[0]->all_gather(std::string(300, 'n'), "", 10s), std::logic_error);
  planes[0]->leave(10s);
}

} // namespace
} // namespace penstock::transport
