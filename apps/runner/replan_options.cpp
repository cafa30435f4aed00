// The texts of --replan and --control.
#include "apps/runner/replan_options.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "transport/launch/values.hpp"

#include <algorithm>

namespace penstock::apps {

namespace {

constexpr std::int64_t most_steps = 1'000'000'000'000; // as --steps

change_request parse_change(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    throw usage_error("--replan: found " + in_quotes(text) + ", wanted STEP:FILE");
  return {parse_step("--replan", text.substr(0, colon)), text.substr(colon + 1)};
}

} // namespace

std::vector<change_request> parse_changes(const std::vector<std::string>& texts) {
  std::vector<change_request> all;
  for (const auto& text : texts)
    all.push_back(parse_change(text));
  std::ranges::stable_sort(all, {}, &change_request::step);
  const auto twice = std::ranges::adjacent_find(all, {}, &change_request::step);
  if (twice != all.end())
    throw usage_error("--replan: found two plans after step " + std::to_string(twice->step) + ", " +
                      in_quotes(twice->file) + " and " + in_quotes(std::next(twice)->file) + ", wanted one");
  return all;
}

std::string text_of(const change_request& change) {
  return "after step " + std::to_string(change.step) + ": " + change.file;
}

std::int64_t parse_step(const std::string& name, const std::string& text) {
  return transport::whole_number(name, text, 1, most_steps);
}

transport::launch parse_control(const std::string& text, int least_port) {
  constexpr int most_port = 65535;
  constexpr auto name = "--control";
  const auto colon = text.rfind(':');
  transport::launch where;
  where.port = static_cast<int>(
      transport::whole_number(name, text.substr(colon == std::string::npos ? 0 : colon + 1), least_port, most_port));
  if (colon == std::string::npos) return where;
  auto host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)
    transport::refuse(name, text, "[ADDRESS]:PORT for an address with colons");
  where.master = transport::host_name(name, host);
  return where;
}

} // namespace penstock::apps
