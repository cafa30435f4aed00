// Windows as rows of tokens with two labels.
#include "apps/data/squad_text.hpp"

#include "apps/data/two_parts.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::apps {

squad_text::squad_text(const std::string& file, const squad_options& options)
    : bucketed_text(options.lengths), name_(file), options_(options), file_(read_squad(file)),
      windows_(file_, *options.tokens, options.windows) {
  set_sides({{"time", options.windows.most_tokens, windows_.rows().lengths()}});
}

std::vector<actors::data_input> squad_text::inputs() const {
  const tensor_spec row{dtype::i64, {options_.windows.most_tokens}};
  const tensor_spec number{dtype::i64, {}};
  return {{.name = "input_ids", .spec = row, .extents = {"time"}, .below = options_.tokens->vocabulary_size()},
          {.name = "token_type_ids", .spec = row, .extents = {"time"}, .below = 2},
          {.name = "lengths", .spec = number},
          {.name = "start_positions", .spec = number},
          {.name = "end_positions", .spec = number}};
}

void squad_text::fill(const drawing&, std::span<const std::int64_t> samples, std::span<tensor> into) const {
  const auto pad = options_.tokens->special().pad.value_or(0);
  const auto time = into[0].dim(1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto sample = static_cast<std::size_t>(samples[i]);
    const auto ids = windows_.rows().row(sample);
    const auto& window = windows_.windows()[sample];
    const auto row = static_cast<std::int64_t>(i);
    const auto length = static_cast<std::int64_t>(ids.size());
    put_padded(into[0], row, ids, pad);
    auto* const types = into[1].data<std::int64_t>() + row * time;
    std::fill(types, types + time, 0);
    std::fill(types + window.context_first, types + length, 1);
    into[2].data<std::int64_t>()[row] = length;
    into[3].data<std::int64_t>()[row] = window.start;
    into[4].data<std::int64_t>()[row] = window.end;
  }
}

std::string squad_text::description() const {
  std::string text = "squad: " + std::to_string(file_.questions.size()) + " questions in " + std::to_string(size()) +
                     " windows from " + name_;
  if (const auto cut = windows_.cut_questions(); cut > 0)
    text += ", " + std::to_string(cut) + " questions cut to " + std::to_string(options_.windows.question_tokens) +
            " tokens";
  return text;
}

squad_pair open_squad(const std::string& where, const squad_options& options) {
  check(options.tokens != nullptr, "questions have a tokenizer");
  const auto parts = two_parts_of(where, "train.json", {"dev.json", "test.json"});
  squad_pair pair;
  pair.train = std::make_unique<squad_text>(parts.train, options);
  if (!parts.test.empty()) pair.test = std::make_unique<squad_text>(parts.test, options);
  return pair;
}

} // namespace penstock::apps
