// Reads what a person may ask of GNMT.
#include "apps/models/gnmt_geometry.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace penstock::apps {

namespace {

constexpr std::int64_t most_layers = 256;
constexpr std::int64_t longest = 1 << 20;

std::string own(const model_options& options, const std::string& name) {
  const auto given = options.own.find(name);
  return given == options.own.end() ? "" : given->second;
}

std::int64_t whole(const model_options& options, const std::string& name, std::int64_t otherwise, std::int64_t least,
                   std::int64_t most) {
  const auto text = own(options, name);
  if (text.empty()) return otherwise;
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw usage_error("--" + name + ": found " + in_quotes(text) + ", wanted a whole number from " +
                      std::to_string(least) + " to " + std::to_string(most));
  return value;
}

gnmt_form form(const model_options& options, const std::string& name, gnmt_form otherwise) {
  const auto text = own(options, name);
  if (text.empty()) return otherwise;
  static const std::vector<std::string> forms{"pipedream", "mlperf"};
  if (text != forms[0] && text != forms[1])
    throw usage_error("--" + name + ": found " + in_quotes(text) + did_you_mean(text, forms) +
                      ", wanted pipedream or mlperf");
  return text == "mlperf" ? gnmt_form::mlperf : gnmt_form::pipedream;
}

std::int64_t scaled(std::int64_t size, double width) {
  if (width == 1) return size;
  return std::max<std::int64_t>(8, 8 * std::llround(static_cast<double>(size) * width / 8));
}

} // namespace

std::int64_t gnmt_layers(const std::string& model) {
  return model == "gnmt8" ? 4 : model == "gnmt16" ? 8 : 16;
}

gnmt_geometry gnmt_geometry_of(const std::string& model, std::int64_t layers, const model_options& options) {
  if (!(options.width > 0 && options.width <= widest))
    throw usage_error(model + ": width " + std::to_string(options.width) + " is not above 0 and at most 16");
  if (!(options.dropout < 1))
    throw usage_error(model + ": --dropout " + std::to_string(options.dropout) + " is not below 1");
  gnmt_geometry g;
  g.layers = whole(options, "layers", layers, 2, most_layers);
  g.hidden = scaled(g.hidden, options.width);
  if (options.vocabulary > 0) g.vocabulary = options.vocabulary;
  if (options.dropout >= 0) g.dropout = static_cast<float>(options.dropout);
  g.tied = !own(options, "tied").empty();
  if (g.tied && !own(options, "untied").empty()) throw usage_error("--untied: found --tied beside it, wanted one");
  const auto usual = g.tied ? gnmt_form::mlperf : gnmt_form::pipedream;
  g.dropout_places = form(options, "dropout-places", usual);
  g.initial_values = form(options, "initial-values", usual);
  if (options.length > 0) g.source_length = g.target_length = options.length;
  g.target_length = whole(options, "target-length", g.target_length, 1, longest);
  return g;
}

} // namespace penstock::apps
