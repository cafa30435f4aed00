// `penstock replan`: asks a running job to change its plan.
#include "apps/runner/command_line.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/replan_options.hpp"
#include "apps/runner/replan_port.hpp"
#include "apps/runner/say.hpp"
#include "apps/runner/text_file.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "tools/commands.hpp"
#include "transport/control/request.hpp"

#include <unistd.h>

namespace penstock::tools {

namespace {

// On a terminal alone, and in place: who waits for a far step wants to see that it comes nearer.
void show_news(const std::string& news) {
  if (::isatty(STDERR_FILENO) == 0 || news.empty()) return;
  std::fputs(("\r\x1b[Kwaiting: " + printable(news)).c_str(), stderr);
}

void hide_news() {
  if (::isatty(STDERR_FILENO) != 0) std::fputs("\r\x1b[K", stderr);
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * seconds));
}

} // namespace

int replan_command(std::span<const std::string> arguments) {
  std::string control;
  std::string file;
  std::string step;
  double timeout = 600;
  apps::command_line line("penstock replan", "Asks a running job, started with --control, to change its plan.");
  line.positional("FILE", file, "The plan");
  line.positional("STEP", step, "Minibatches of the whole run after which it takes over [as soon as can be]");
  line.text("--control", control, "PORT|HOST:PORT", "Where the job listens");
  line.real("--timeout", timeout, 0.1, 1e6, "Seconds to wait until the plan has taken over");
  line.footer("Both sides take the secret from PENSTOCK_SECRET_FILE or PENSTOCK_SECRET; a job of `penstock launch` is "
              "given it by --secret-file.\n"
              "Exit codes: 0 the plan took over, 1 it was refused or the job did not answer, 2 usage.\n");
  if (!line.parse(arguments)) {
    std::fputs(line.help_text().c_str(), stdout);
    return 0;
  }
  if (file.empty()) throw usage_error("replan: no plan is given, wanted penstock replan --control PORT FILE [STEP]");
  if (control.empty()) throw usage_error("--control: wanted the port at which the job listens");
  const auto where = apps::parse_control(control, 1);
  apps::replan_request wanted{.file = file, .plan = {}, .step = {}};
  if (!step.empty()) wanted.step = apps::parse_step("STEP", step);
  apps::of_option("replan", [&] { // what is no plan is refused here
    wanted.plan = apps::read_text_file(file);
    planner::check_plan(planner::plan_from_json(wanted.plan, file));
  });
  const auto secret = transport::read_secret_for("replan");
  transport::asking_options options;
  options.patience = milliseconds(timeout);
  options.on_news = show_news;
  const auto answer = transport::ask(where, secret, {apps::replan_topic, apps::to_text(wanted)}, options);
  hide_news();
  if (!answer.is_granted) throw error("refused: " + answer.line);
  apps::say(answer.line + "\n");
  return 0;
}

} // namespace penstock::tools
