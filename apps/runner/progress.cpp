// The live line and its plain twin.
#include "apps/runner/progress.hpp"

#include "apps/runner/text_table.hpp"
#include "kernels/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::apps {

namespace {

constexpr auto live_interval = std::chrono::milliseconds(100);
constexpr auto plain_interval = std::chrono::seconds(5);
constexpr auto part_interval = std::chrono::seconds(10); // a shorter part is not worth a line
constexpr auto least_basis = std::chrono::seconds(1);    // of an estimate

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

progress::progress(std::FILE* out, bool is_silent)
    : out_(out), silent_(is_silent), live_(::isatty(::fileno(out)) == 1), last_(clock::now()) {
  if (!silent_) watcher_ = std::thread([this] { watch(); });
}

progress::~progress() {
  finish();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  over_changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void progress::watch() {
  std::unique_lock lock(mutex_);
  while (!over_changed_.wait_for(lock, live_interval, [this] { return over_; }))
    if (part_) tell_of_part(clock::now());
}

void progress::part(const actors::part_progress& p) {
  if (silent_) return;
  const std::lock_guard lock(mutex_);
  const auto now = clock::now();
  if (!part_ || part_->at.what != p.what) part_ = long_part{p, now, now};
  part_->at = p;
}

// A step line that stands on a terminal stays there while the next step is waited for.
void progress::tell_of_part(clock::time_point now) {
  auto& [at, begun, told] = *part_;
  const double seconds = std::chrono::duration<double>(now - begun).count();
  const bool is_counted = at.total > 0;
  if (now - told < (live_ ? clock::duration(live_interval) : clock::duration(part_interval))) return;
  told = now;
  std::string left = at.what;
  std::string right = duration_text(seconds);
  if (is_counted) {
    left += fmt::format("  {:>{}}/{} {}", at.done, fmt::formatted_size("{}", at.total), at.total, at.unit);
    if (at.is_even && at.done > 0 && now - begun >= least_basis)
      right += fmt::format("  {} left", countdown_text(seconds * (1 / part_of(at.done, at.total) - 1)));
  }
  if (live_)
    draw(left, is_counted ? part_of(at.done, at.total) : -1, right);
  else
    print(left + "  " + right);
}

bool progress::is_epoch_end(const actors::step_event& e) const {
  return e.step == e.total_steps || (steps_per_epoch_ > 0 && e.step % steps_per_epoch_ == 0);
}

void progress::step(const actors::step_event& e) {
  if (silent_) return;
  const std::lock_guard lock(mutex_);
  const auto now = clock::now();
  if (first_step_ == 0) {
    first_step_ = e.step;
    first_step_at_ = now;
  }
  part_.reset();
  if (!live_ && e.step < e.total_steps) part_ = long_part{{.what = fmt::format("step {}", e.step + 1)}, now, now};
  if (e.epoch != epoch_) {
    epoch_ = e.epoch;
    loss_ = 0;
    counted_ = 0;
    shown_.clear();
  }
  loss_ += e.loss;
  shown_.resize(e.shown.size());
  for (std::size_t i = 0; i < e.shown.size(); ++i)
    shown_[i] += e.shown[i].value;
  ++counted_;
  const bool due = now - last_ >= (live_ ? clock::duration(live_interval) : clock::duration(plain_interval));
  if (!due && !is_epoch_end(e)) return;
  last_ = now;
  if (!live_ || is_epoch_end(e)) return print(plain_line(e));
  draw(e);
}

// By the mean of the run so far, evaluations included. The first step is no basis: kernels are made in it.
std::optional<double> progress::seconds_left(const actors::step_event& e) const {
  const auto since_first = clock::now() - first_step_at_;
  if (e.step == e.total_steps) return 0;
  if (e.step <= first_step_ || since_first < least_basis) return std::nullopt;
  return std::chrono::duration<double>(since_first).count() / static_cast<double>(e.step - first_step_) *
         static_cast<double>(e.total_steps - e.step);
}

std::string progress::head(const actors::step_event& e) const {
  const auto per_epoch = std::max<std::int64_t>(1, steps_per_epoch_);
  const auto epochs = std::max((e.total_steps + per_epoch - 1) / per_epoch, e.epoch + 1);
  return fmt::format("epoch {}/{}  step {:>{}}/{}", e.epoch + 1, epochs, e.step,
                     fmt::formatted_size("{}", e.total_steps), e.total_steps);
}

std::string progress::tail(const actors::step_event& e) const {
  const auto mean = [this](double sum) { return sum / static_cast<double>(std::max<std::int64_t>(counted_, 1)); };
  auto text = fmt::format("loss {:.4f}", mean(loss_));
  for (std::size_t i = 0; i < e.shown.size(); ++i) {
    const auto& s = e.shown[i];
    text += s.is_share ? fmt::format("  {} {:5.1f} %", s.name == "accuracy" ? "acc" : s.name, 100 * mean(shown_[i]))
                       : fmt::format("  {} {:.2f}", s.name, mean(shown_[i]));
  }
  text += fmt::format("  {:.{}f} samples/s", e.samples_per_s, e.samples_per_s < 9.95 ? 1 : 0);
  for (const auto& r : e.rates)
    text += fmt::format("  {:.0f} {}/s", r.value, r.name);
  if (const auto left = seconds_left(e)) text += fmt::format("  {} left", countdown_text(*left));
  return text;
}

std::string progress::plain_line(const actors::step_event& e) const {
  return head(e) + "  " + tail(e);
}

void progress::draw(const actors::step_event& e) {
  draw(head(e), part_of(e.step, e.total_steps), tail(e));
}

// No bar where the part is below 0.
void progress::draw(const std::string& left, double part, const std::string& right) {
  const auto columns = terminal_columns(out_) - 1; // the last column would wrap on some terminals
  const auto used = left.size() + right.size() + 6;
  auto line = left + "  ";
  if (part >= 0 && columns >= used + 4) line += bar(part, std::min<std::size_t>(columns - used, 30)) + "  ";
  line += right;
  std::fprintf(out_, "\r%s\x1b[K", line.substr(0, columns).c_str());
  std::fflush(out_);
  drawn_ = true;
}

void progress::eval(const actors::eval_event& e) {
  if (silent_) return;
  const std::lock_guard lock(mutex_);
  part_.reset();
  const auto after =
      e.step == 0 ? "" : fmt::format(" after {} epoch{}, {} steps", e.epoch, e.epoch == 1 ? "" : "s", e.step);
  print("evaluation" + after + ": " + evaluation_text(e.found));
}

void progress::note(const std::string& line) {
  if (silent_) return;
  const std::lock_guard lock(mutex_);
  print(one_line(line));
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
  if (silent_) return;
  const std::lock_guard lock(mutex_);
  part_.reset();
  clear();
  std::fflush(out_);
}

} // namespace penstock::apps
