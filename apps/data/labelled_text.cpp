// Reads labelled lines, numbers their classes and tokenizes their text.
#include "apps/data/labelled_text.hpp"

#include "apps/data/token_rows.hpp"
#include "apps/data/two_parts.hpp"
#include "apps/text/lines.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <set>

namespace penstock::apps {

namespace {

using two_columns = std::array<std::vector<std::string>, 2>;

two_columns read_columns(const std::string& file) {
  line_reader lines(file);
  two_columns columns;
  while (const auto line = lines.next()) {
    const auto tab = line->find('\t');
    if (tab == std::string_view::npos || line->find('\t', tab + 1) != std::string_view::npos)
      lines.fail("found " + std::to_string(1 + std::count(line->begin(), line->end(), '\t')) +
                 " columns, wanted a label and a text with a tab between");
    columns[0].emplace_back(line->substr(0, tab));
    columns[1].emplace_back(line->substr(tab + 1));
    for (const auto& column : columns)
      if (column.back().find_first_not_of(' ') == std::string::npos)
        lines.fail("found an empty column, wanted a label and a text with a tab between");
  }
  if (columns[0].empty()) throw error(file + ": found no lines, wanted labels and texts");
  return columns;
}

std::size_t label_column(const two_columns& columns) {
  const auto different = [](const std::vector<std::string>& column) {
    return std::set<std::string_view>(column.begin(), column.end()).size();
  };
  return different(columns[1]) < different(columns[0]) ? 1 : 0;
}

std::vector<std::string> labels_of(const std::vector<std::string>& column) {
  const std::set<std::string> labels(column.begin(), column.end()); // std::string compares bytes
  return {labels.begin(), labels.end()};
}

class labelled_text final : public bucketed_text {
public:
  labelled_text(const std::string& file, const two_columns& columns, std::size_t label_at,
                const std::vector<std::string>& labels, const labelled_text_options& options)
      : bucketed_text(options.lengths), file_(file), options_(options),
        classes_(static_cast<std::int64_t>(labels.size())) {
    for (std::size_t i = 0; i < columns[0].size(); ++i) {
      add_label(columns[label_at][i], labels, i + 1);
      add_text(columns[1 - label_at][i], i + 1);
    }
    set_sides({{"time", options_.most_tokens, rows_.lengths()}});
  }

  std::vector<actors::data_input> inputs() const override {
    const tensor_spec row{dtype::i64, {options_.most_tokens}};
    const tensor_spec number{dtype::i64, {}};
    return {{.name = "input_ids", .spec = row, .extents = {"time"}, .below = options_.tokens->vocabulary_size()},
            {.name = "token_type_ids", .spec = row, .extents = {"time"}, .below = 1},
            {.name = "lengths", .spec = number},
            {.name = "labels", .spec = number, .below = classes_}};
  }

  void fill(const drawing&, std::span<const std::int64_t> samples, std::span<tensor> into) const override {
    const auto pad = options_.tokens->special().pad.value_or(0);
    std::fill_n(into[1].data<std::int64_t>(), into[1].elements(), std::int64_t{0});
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto sample = static_cast<std::size_t>(samples[i]);
      const auto ids = rows_.row(sample);
      put_padded(into[0], static_cast<std::int64_t>(i), ids, pad);
      into[2].data<std::int64_t>()[i] = static_cast<std::int64_t>(ids.size());
      into[3].data<std::int64_t>()[i] = truths_[sample];
    }
  }

  std::string description() const override {
    return "labelled text: " + std::to_string(size()) + " samples of " + std::to_string(classes_) + " classes from " +
           file_ +
           (cut_ > 0 ? ", " + std::to_string(cut_) + " cut to " + std::to_string(options_.most_tokens) + " tokens"
                     : "");
  }

private:
  void add_label(const std::string& label, const std::vector<std::string>& labels, std::size_t line) {
    const auto found = std::lower_bound(labels.begin(), labels.end(), label);
    if (found == labels.end() || *found != label)
      throw error(file_ + ": line " + std::to_string(line) + ": found the label " + in_quotes(label) +
                  ", wanted one of the " + std::to_string(labels.size()) + " of the training data" +
                  did_you_mean(label, labels));
    truths_.push_back(found - labels.begin());
  }

  void add_text(const std::string& text, std::size_t line) {
    auto ids = [&] {
      try {
        return options_.tokens->encode(text);
      } catch (const error& fault) {
        throw error(file_ + ": line " + std::to_string(line) + ": " + fault.what());
      }
    }();
    const auto room = static_cast<std::size_t>(options_.most_tokens) - options_.tokens->wrapped({}).size();
    if (ids.size() > room) {
      ids.resize(room);
      ++cut_;
    }
    rows_.add(options_.tokens->wrapped(std::move(ids)));
  }

  std::string file_;
  labelled_text_options options_;
  std::int64_t classes_;
  token_rows rows_;
  std::vector<std::int64_t> truths_;
  std::int64_t cut_ = 0;
};

} // namespace

labelled_text_pair open_labelled_text(const std::string& where, const labelled_text_options& options) {
  check(options.tokens != nullptr, "labelled text has a tokenizer");
  const auto around = static_cast<std::int64_t>(options.tokens->wrapped({}).size());
  if (options.most_tokens <= around)
    throw usage_error("labelled-text: found a limit of " + std::to_string(options.most_tokens) +
                      " tokens, wanted more than the " + std::to_string(around) + " around each text");
  const auto files = two_parts_of(where, "train.tsv", {"test.tsv", "valid.tsv", "dev.tsv"});
  const auto columns = read_columns(files.train);
  const auto at = label_column(columns);
  labelled_text_pair pair;
  pair.labels = labels_of(columns[at]);
  if (options.classes > 0 && static_cast<std::int64_t>(pair.labels.size()) > options.classes)
    throw usage_error(files.train + ": found " + std::to_string(pair.labels.size()) + " labels, wanted at most the " +
                      std::to_string(options.classes) + " classes of the network");
  pair.train = std::make_unique<labelled_text>(files.train, columns, at, pair.labels, options);
  if (!files.test.empty())
    pair.test = std::make_unique<labelled_text>(files.test, read_columns(files.test), at, pair.labels, options);
  return pair;
}

std::int64_t labels_in(const std::string& where) {
  const auto columns = read_columns(two_parts_of(where, "train.tsv", {"test.tsv", "valid.tsv", "dev.tsv"}).train);
  return static_cast<std::int64_t>(labels_of(columns[label_column(columns)]).size());
}

} // namespace penstock::apps
