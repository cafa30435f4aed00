// Learning-rate schedules: the rate of a minibatch, and how a schedule is written on the command line.
#include "kernels/check.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

namespace penstock {

namespace {

struct schedule_form {
  std::string name;
  std::vector<std::string> keys;
};

const std::vector<schedule_form>& forms() {
  static const std::vector<schedule_form> all{{"constant", {"warmup"}},
                                              {"step", {"every", "gamma", "warmup"}},
                                              {"cosine", {"warmup", "final"}},
                                              {"polynomial", {"power", "warmup", "final"}},
                                              {"gnmt", {"warmup", "halvings", "until"}}};
  return all;
}

const schedule_form& form_named(std::string_view name) {
  std::vector<std::string> names;
  for (const schedule_form& form : forms()) {
    if (form.name == name) return form;
    names.push_back(form.name);
  }
  throw usage_error("unknown learning-rate schedule '" + std::string(name) + "'" + did_you_mean(name, names) +
                    "; there are " + join(names, ", "));
}

[[noreturn]] void refuse(std::string_view key, std::string_view value, const std::string& wanted) {
  throw usage_error("learning-rate schedule: " + std::string(key) + " is '" + std::string(value) + "', " + wanted +
                    " is wanted");
}

std::int64_t parse_count(std::string_view key, std::string_view value, std::int64_t least) {
  std::int64_t count = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (problem != std::errc{} || end != value.data() + value.size() || count < least)
    refuse(key, value, "a whole number of at least " + std::to_string(least));
  return count;
}

float parse_number(std::string_view key, std::string_view value) {
  float number = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (problem != std::errc{} || end != value.data() + value.size() || !std::isfinite(number) || number < 0)
    refuse(key, value, "a number of at least 0");
  return number;
}

void parse_setting(const schedule_form& form, std::string_view setting, lr_schedule_options& options) {
  const auto equals = setting.find('=');
  const auto key = setting.substr(0, equals);
  if (std::find(form.keys.begin(), form.keys.end(), key) == form.keys.end())
    throw usage_error("learning-rate schedule " + in_quotes(form.name) + " has no setting " + in_quotes(key) +
                      did_you_mean(key, form.keys) + "; it has " + join(form.keys, ", "));
  if (equals == std::string_view::npos) refuse(key, "", "'" + std::string(key) + "=VALUE'");
  const auto value = setting.substr(equals + 1);
  if (key == "warmup") options.warmup_steps = parse_count(key, value, 0);
  if (key == "every") options.step_every = parse_count(key, value, 1);
  if (key == "gamma") options.gamma = parse_number(key, value);
  if (key == "power") options.power = parse_number(key, value);
  if (key == "halvings") options.halvings = parse_count(key, value, 0);
  if (key == "until") {
    options.until = parse_number(key, value);
    if (options.until > 1) refuse(key, value, "a part of the run, 0 to 1,");
  }
  if (key == "final") options.final_fraction = parse_number(key, value);
}

void need_length(const lr_schedule_options& options) {
  if (options.total_steps < 1)
    throw usage_error("learning-rate schedule " + in_quotes(options.name) + " needs the number of steps of the run");
}

// MLPerf's GNMT: up from a hundredth by one factor a minibatch, then level, then halved at even distances. The numbers
// of minibatches are rounded down as there.
double gnmt_factor(const lr_schedule_options& options, std::int64_t minibatch) {
  need_length(options);
  const auto level =
      static_cast<std::int64_t>(static_cast<double>(options.until) * static_cast<double>(options.total_steps));
  const auto warmup = std::min(options.warmup_steps, level);
  if (warmup > 0 && minibatch <= warmup)
    return std::pow(0.01, 1 - static_cast<double>(minibatch) / static_cast<double>(warmup));
  if (minibatch < level || options.halvings == 0) return 1;
  const auto distance = std::max<std::int64_t>((options.total_steps - level) / options.halvings, 1);
  return std::pow(0.5, static_cast<double>(std::min((minibatch - level) / distance + 1, options.halvings)));
}

// Part of the way from the end of the warm-up to the end of the run.
double progress(const lr_schedule_options& options, std::int64_t minibatch) {
  need_length(options);
  const std::int64_t length = std::max<std::int64_t>(options.total_steps - options.warmup_steps, 1);
  return std::min(1.0, static_cast<double>(minibatch - options.warmup_steps) / static_cast<double>(length));
}

} // namespace

float learning_rate(const lr_schedule_options& options, std::int64_t minibatch) {
  const double base = options.base;
  if (options.name == "gnmt") return static_cast<float>(base * gnmt_factor(options, minibatch));
  if (minibatch < options.warmup_steps)
    return static_cast<float>(base * static_cast<double>(minibatch + 1) / static_cast<double>(options.warmup_steps));
  double factor = 1;
  if (options.name == "step") {
    if (options.step_every < 1) throw usage_error("learning-rate schedule 'step' needs every=MINIBATCHES");
    factor = std::pow(static_cast<double>(options.gamma), static_cast<double>(minibatch / options.step_every));
  } else if (options.name == "cosine" || options.name == "polynomial") {
    const double done = progress(options, minibatch);
    const double left = options.name == "cosine" ? (1 + std::cos(std::numbers::pi * done)) / 2
                                                 : std::pow(1 - done, static_cast<double>(options.power));
    factor = options.final_fraction + (1 - static_cast<double>(options.final_fraction)) * left;
  } else {
    form_named(options.name); // refuses what is not "constant"
  }
  return static_cast<float>(base * factor);
}

lr_schedule_options parse_lr_schedule(std::string_view text) {
  auto end = text.find_first_of(":,");
  const schedule_form& form = form_named(text.substr(0, end));
  lr_schedule_options options;
  options.name = form.name;
  if (form.name == "gnmt") options.warmup_steps = 200;
  while (end != std::string_view::npos) {
    text.remove_prefix(end + 1);
    end = text.find(',');
    parse_setting(form, text.substr(0, end), options);
  }
  if (form.name == "step" && options.step_every < 1)
    throw usage_error("learning-rate schedule 'step' needs every=MINIBATCHES, as in 'step:every=1000'");
  return options;
}

} // namespace penstock
