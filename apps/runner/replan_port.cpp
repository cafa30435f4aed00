// Requests as JSON, and what becomes of them.
#include "apps/runner/replan_port.hpp"

#include "apps/runner/plan_words.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace penstock::apps {

namespace {

using nlohmann::json;

constexpr std::size_t most_name_bytes = 200; // of a file, in a line

} // namespace

std::string to_text(const replan_request& r) {
  json text{{"file", r.file}, {"plan", r.plan}};
  if (r.step) text["step"] = *r.step;
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

replan_request replan_request_from(const std::string& text) {
  try {
    const auto all = json::parse(text);
    replan_request r{printable(all.at("file").get<std::string>().substr(0, most_name_bytes)), all.at("plan"), {}};
    if (all.contains("step")) r.step = all.at("step").get<std::int64_t>();
    return r;
  } catch (const json::exception&) {
    throw usage_error("the request is none that penstock replan makes");
  }
}

replan_port::replan_port(const transport::launch& where, const transport::job_secret& secret,
                         const change_settler& settler, planner::plan_ptr first, actors::plan_wishes& wishes,
                         log_line log, log_line warn)
    : settler_(settler), wishes_(wishes), log_(std::move(log)), now_(std::move(first)) {
  transport::request_port_options options;
  options.secret = secret;
  options.news = [this] { return fmt::format("step {} of {}", done_.load(), settler_.total_steps()); };
  options.log = std::move(warn);
  port_ = std::make_unique<transport::request_port>(
      where, std::move(options),
      [this](const transport::request& asked, transport::request_port::responder respond) { take(asked, respond); });
}

// Those that wait are answered while there is still a port to answer by.
replan_port::~replan_port() {
  wishes_.close("the run has ended before it could take place");
  port_.reset();
}

planner::plan_ptr replan_port::in_force() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void replan_port::take(const transport::request& asked, const transport::request_port::responder& respond) {
  if (asked.topic != replan_topic) throw usage_error("there is nothing called " + in_quotes(asked.topic) + " here");
  const auto wanted = replan_request_from(asked.body);
  try {
    if (wanted.step && *wanted.step <= done_)
      throw usage_error(fmt::format("step {} is past, the run has done {}", *wanted.step, done_.load()));
    if (wanted.step && *wanted.step >= settler_.total_steps())
      throw usage_error(fmt::format("step {}: the run ends after step {}, wanted a step before", *wanted.step,
                                    settler_.total_steps()));
    auto given = planner::plan_from_json(wanted.plan, wanted.file);
    planner::check_plan(given);
    const auto plan = settler_.settle(std::move(given), *in_force());
    log_(fmt::format("asked to change to the plan of {} {}", wanted.file,
                     wanted.step ? fmt::format("after step {}", *wanted.step) : "at the next drain"));
    wishes_.post(plan, wanted.step,
                 [this, wanted, plan, respond](const std::string& why) { answer(wanted, plan, why, respond); });
  } catch (const std::exception& refusal) {
    answer(wanted, nullptr, refusal.what(), respond);
  }
}

// By the run's thread, or by the port's where nothing came of it.
void replan_port::answer(const replan_request& asked, const planner::plan_ptr& plan, const std::string& refusal,
                         const transport::request_port::responder& respond) {
  if (!refusal.empty()) {
    const auto line = refusal.starts_with(asked.file) ? refusal : asked.file + ": " + refusal;
    log_("change of plan refused: " + line);
    return respond({false, line});
  }
  {
    const std::lock_guard lock(mutex_);
    now_ = plan;
  }
  const auto done = done_.load();
  log_(fmt::format("the plan of {} took over after step {}; --replan {}:{} repeats it", asked.file, done, done,
                   asked.file));
  respond({true, fmt::format("the plan took over after step {}: {}", done, plan_line(*plan))});
}

} // namespace penstock::apps
