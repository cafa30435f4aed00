// The live line and its plain twin.
#include "apps/runner/progress.hpp"

#include "apps/runner/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::apps {

namespace {

constexpr auto live_interval = std::chrono::milliseconds(100);
constexpr auto plain_interval = std::chrono::seconds(5);

std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string bar(double part, std::size_t width) {
  const auto full = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(width));
  return fmt::format("[{:=<{}}{:<{}}]", "", full, "", width - full);
}

double part_of(std::int64_t done, std::int64_t all) {
  return all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 0;
}

} // namespace

progress::progress(std::FILE* out, std::int64_t epochs, std::int64_t steps_per_epoch)
    : out_(out), live_(::isatty(::fileno(out)) == 1), epochs_(epochs), steps_per_epoch_(steps_per_epoch),
      start_(clock::now()), last_(start_) {}

progress::~progress() {
  finish();
}

bool progress::is_epoch_end(const actors::step_event& e) const {
  return e.step == e.total_steps || (steps_per_epoch_ > 0 && e.step % steps_per_epoch_ == 0);
}

void progress::step(const actors::step_event& e) {
  if (first_step_ == 0) first_step_ = e.step;
  if (e.epoch != epoch_) {
    epoch_ = e.epoch;
    loss_ = accuracy_ = 0;
    counted_ = 0;
  }
  loss_ += e.loss;
  accuracy_ += e.accuracy;
  ++counted_;
  const auto now = clock::now();
  const bool due = now - last_ >= (live_ ? clock::duration(live_interval) : clock::duration(plain_interval));
  if (!due && !is_epoch_end(e)) return;
  last_ = now;
  if (!live_ || is_epoch_end(e)) return print(plain_line(e));
  draw(e);
}

// By the mean of the run so far, evaluations included.
double progress::seconds_left(const actors::step_event& e) const {
  const auto seconds = std::chrono::duration<double>(clock::now() - start_).count();
  return seconds / static_cast<double>(e.step - first_step_ + 1) * static_cast<double>(e.total_steps - e.step);
}

std::string progress::head(const actors::step_event& e) const {
  return fmt::format("epoch {}/{}  step {:>{}}/{}", e.epoch + 1, std::max(epochs_, e.epoch + 1), e.step,
                     fmt::formatted_size("{}", e.total_steps), e.total_steps);
}

std::string progress::tail(const actors::step_event& e) const {
  const auto mean = [this](double sum) { return sum / static_cast<double>(std::max<std::int64_t>(counted_, 1)); };
  return fmt::format("loss {:.4f}  acc {:5.1f} %  {:.0f} samples/s  {} left", mean(loss_), 100 * mean(accuracy_),
                     e.samples_per_s, countdown_text(seconds_left(e)));
}

std::string progress::plain_line(const actors::step_event& e) const {
  return head(e) + "  " + tail(e);
}

void progress::draw(const actors::step_event& e) {
  const auto left = head(e) + "  ";
  const auto right = tail(e);
  const auto columns = terminal_columns(out_) - 1; // the last column would wrap on some terminals
  const auto used = left.size() + right.size() + 4;
  auto line = left;
  if (columns >= used + 4)
    line += bar(part_of(e.step, e.total_steps), std::min<std::size_t>(columns - used, 30)) + "  ";
  line += right;
  std::fprintf(out_, "\r%s\x1b[K", line.substr(0, columns).c_str());
  std::fflush(out_);
  drawn_ = true;
}

void progress::eval(const actors::eval_event& e) {
  const auto& m = e.metrics;
  const auto samples = static_cast<double>(m.samples);
  print(fmt::format("evaluation after {} epoch{}, {} steps: loss {:.4f}, top-1 {}, top-5 {}", e.epoch,
                    e.epoch == 1 ? "" : "s", e.step, m.samples > 0 ? m.loss_sum / samples : 0,
                    percent_text(static_cast<double>(m.correct_top1), samples),
                    percent_text(static_cast<double>(m.correct_top5), samples)));
}

void progress::note(const std::string& line) {
  print(line);
}

void progress::print(const std::string& line) {
  clear();
  std::fprintf(out_, "%s\n", line.c_str());
  std::fflush(out_);
}

void progress::clear() {
  if (drawn_) std::fputs("\r\x1b[K", out_);
  drawn_ = false;
}

void progress::finish() {
  clear();
  std::fflush(out_);
}

} // namespace penstock::apps
