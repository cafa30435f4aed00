// Reads what a person may ask of GNMT.
#include "apps/models/gnmt_geometry.hpp"

#include "apps/models/own_options.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

namespace penstock::apps {

namespace {

constexpr std::int64_t most_layers = 256;
constexpr std::int64_t longest = 1 << 20;

gnmt_form form(const model_options& options, const std::string& name, gnmt_form otherwise) {
  const auto text = own_text(options, name);
  if (text.empty()) return otherwise;
  static const std::vector<std::string> forms{"pipedream", "mlperf"};
  if (text != forms[0] && text != forms[1])
    throw usage_error("--" + name + ": found " + in_quotes(text) + did_you_mean(text, forms) +
                      ", wanted pipedream or mlperf");
  return text == "mlperf" ? gnmt_form::mlperf : gnmt_form::pipedream;
}

} // namespace

std::int64_t gnmt_layers(const std::string& model) {
  return model == "gnmt8" ? 4 : model == "gnmt16" ? 8 : 16;
}

gnmt_geometry gnmt_geometry_of(const std::string& model, std::int64_t layers, const model_options& options) {
  check_width_and_dropout(model, options);
  gnmt_geometry g;
  g.layers = own_whole(options, "layers", layers, 2, most_layers);
  g.hidden = scaled(g.hidden, options.width);
  if (options.vocabulary > 0) g.vocabulary = options.vocabulary;
  if (options.dropout >= 0) g.dropout = static_cast<float>(options.dropout);
  g.tied = own_switch(options, "tied");
  if (g.tied && own_switch(options, "untied")) throw usage_error("--untied: found --tied beside it, wanted one");
  const auto usual = g.tied ? gnmt_form::mlperf : gnmt_form::pipedream;
  g.dropout_places = form(options, "dropout-places", usual);
  g.initial_values = form(options, "initial-values", usual);
  if (options.length > 0) g.source_length = g.target_length = options.length;
  g.target_length = own_whole(options, "target-length", g.target_length, 1, longest);
  return g;
}

} // namespace penstock::apps
