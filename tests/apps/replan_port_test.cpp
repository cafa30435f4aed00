// Changes of plan asked of a run that is played here: settled, handed over, answered, and refused without harm.
#include "apps/plugins/plugin_registry.hpp"
#include "apps/runner/replan_port.hpp"
#include "kernels/check.hpp"
#include "transport/control/request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <thread>

namespace penstock::apps {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const std::string two_stages = R"({"stages": [{"first_layer": "conv1", "last_layer": "pool2"},
                                             {"first_layer": "flatten", "last_layer": "fc3"}]})";

/// LeNet of 100 steps with a port, whose trainer does what a test says.
class ReplanPort : public testing::Test {
protected:
  ReplanPort() {
    const std::vector<std::string> arguments{"--synthetic-samples", "64", "--batch", "8", "--steps", "100",
                                             "--control",           "0"};
    std::string help;
    run = prepare(*parse_options("lenet", arguments, help), plugin_registry(), nullptr,
                  [](const std::string&) { return true; });
    const auto keep = [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(line);
    };
    port.emplace(transport::launch{}, secret, *run.settler, run.plan, wishes, keep, keep);
    const auto address = port->address();
    where.port = std::stoi(address.substr(address.rfind(':') + 1));
  }

  std::future<transport::request_answer> ask_later(const replan_request& wanted) const {
    return std::async(std::launch::async, [=, this] { return ask(wanted); });
  }
  transport::request_answer ask(const replan_request& wanted) const {
    return transport::ask(where, secret, {replan_topic, to_text(wanted)}, {});
  }
  /// As a run that looks before each minibatch does.
  actors::plan_wish next_wish() {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!wishes.has_any() && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    auto all = wishes.take();
    if (all.size() != 1) throw std::runtime_error("no wish has come");
    return std::move(all.front());
  }
  std::vector<std::string> log() const {
    const std::lock_guard lock(mutex);
    return lines;
  }

  transport::job_secret secret = transport::secret_from_text("a secret of the tests");
  transport::launch where;
  prepared_run run;
  actors::plan_wishes wishes;
  mutable std::mutex mutex;
  std::vector<std::string> lines;
  std::optional<replan_port> port;
};

TEST_F(ReplanPort, HandsTheSettledPlanToTheRunAndSaysWhenItTookOver) {
  auto answer = ask_later({"two.json", two_stages, 40});
  auto wish = next_wish();
  EXPECT_EQ(wish.step(), 40);
  EXPECT_EQ(wish.plan()->stages.size(), 2U);
  EXPECT_EQ(wish.plan()->threads, run.plan->threads);
  port->at_step(40);
  wish.took_place();
  const auto told = answer.get();
  EXPECT_TRUE(told.is_granted);
  EXPECT_THAT(told.line,
              AllOf(HasSubstr("the plan took over after step 40: "), HasSubstr("conv1..pool2 x1 | flatten..fc3 x1")));
  EXPECT_THAT(log(), Contains(HasSubstr("--replan 40:two.json repeats it")));
}

TEST_F(ReplanPort, TheNextDrainWillDoWithoutAStep) {
  auto answer = ask_later({"two.json", two_stages, {}});
  auto wish = next_wish();
  EXPECT_EQ(wish.step(), std::nullopt);
  wish.refuse("rank 1 has no memory for it");
  const auto told = answer.get();
  EXPECT_FALSE(told.is_granted);
  EXPECT_EQ(told.line, "two.json: rank 1 has no memory for it");
  EXPECT_THAT(log(), Contains(HasSubstr("change of plan refused: two.json: rank 1 has no memory")));
}

TEST_F(ReplanPort, RefusesWhatNoRunCouldDoAndGoesOn) {
  port->at_step(40);
  const auto refusal = [&](const std::string& plan, std::optional<std::int64_t> step) {
    const auto told = ask({"p.json", plan, step});
    EXPECT_FALSE(told.is_granted);
    return told.line;
  };
  EXPECT_EQ(refusal(two_stages, 40), "p.json: step 40 is past, the run has done 40");
  EXPECT_EQ(refusal(two_stages, -1), "p.json: step -1 is past, the run has done 40");
  EXPECT_THAT(refusal(two_stages, 100), HasSubstr("step 100: the run ends after step 100"));
  EXPECT_THAT(refusal("{", {}), HasSubstr("p.json"));
  EXPECT_THAT(refusal(R"({"model": "vgg16", "stages": [{"first_layer": "a", "last_layer": "b"}]})", {}),
              HasSubstr("the plan is for vgg16, wanted one for lenet"));
  EXPECT_THAT(refusal(R"({"schedule": "1f1b", "stages": [{"first_layer": "conv1", "last_layer": "fc3"}]})", {}),
              HasSubstr("wanted one of the family of pipedream"));
  EXPECT_FALSE(wishes.has_any());
  EXPECT_EQ(transport::ask(where, secret, {replan_topic, "no JSON"}, {}).line,
            "the request is none that penstock replan makes");
  EXPECT_THAT(transport::ask(where, secret, {"stop", ""}, {}).line, HasSubstr("nothing called 'stop'"));
  auto answer = ask_later({"two.json", two_stages, 41});
  next_wish().took_place();
  EXPECT_TRUE(answer.get().is_granted);
}

TEST_F(ReplanPort, ANewPlanIsComparedWithTheOneThatTookOver) {
  auto answer = ask_later({"two.json",
                           R"({"schedule": "pipedream-vertical-sync", "threads": 1, "stages":
                           [{"first_layer": "conv1", "last_layer": "fc3"}]})",
                           {}});
  next_wish().took_place();
  EXPECT_TRUE(answer.get().is_granted);
  auto second = ask_later({"two.json", two_stages, {}});
  auto wish = next_wish();
  EXPECT_EQ(wish.plan()->threads, 1) << "kept, since the file says nothing";
  wish.took_place();
  EXPECT_TRUE(second.get().is_granted);
}

TEST_F(ReplanPort, TheEndOfTheRunRefusesWhatHasNotTakenPlace) {
  auto answer = ask_later({"two.json", two_stages, 90});
  {
    const auto held = next_wish(); // by a run that has ended before step 90
  }
  EXPECT_EQ(answer.get().line, "two.json: the run has ended before it could take place");
}

TEST_F(ReplanPort, TheEndOfTheRunRefusesWhatWasNeverLookedAt) {
  auto answer = ask_later({"two.json", two_stages, 90});
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!wishes.has_any() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  port.reset();
  EXPECT_EQ(answer.get().line, "two.json: the run has ended before it could take place");
}

TEST_F(ReplanPort, AnotherSecretReachesNobody) {
  EXPECT_THROW(transport::ask(where, transport::secret_from_text("quite another secret"),
                              {replan_topic, to_text({"two.json", two_stages, {}})}, {}),
               error);
  EXPECT_FALSE(wishes.has_any());
}

} // namespace
} // namespace penstock::apps
