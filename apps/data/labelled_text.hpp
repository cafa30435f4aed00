// Sentences with a class each.
#pragma once

#include "apps/data/bucketed_text.hpp"
#include "apps/text/tokenizer.hpp"

#include <memory>

namespace penstock::apps {

struct labelled_text_options {
  std::shared_ptr<const tokenizer> tokens;
  std::int64_t most_tokens = 128; ///< of a sample, the tokens around it included; what is longer is cut
  std::int64_t classes = 0;       ///< that the model has; 0: not said
  length_options lengths;
};

struct labelled_text_pair {
  std::unique_ptr<actors::dataset> train;
  std::unique_ptr<actors::dataset> test; ///< null where there is none
  std::vector<std::string> labels;       ///< by class: in byte order
};

/// `where` is a folder with train.tsv and perhaps test.tsv, valid.tsv or dev.tsv (the first of them), or a file, or two
/// with a comma between. A line is a label and a text with a tab between, in either order: the label is the column of
/// `train` with fewer different values, the first where they are as many. Inputs: input_ids and token_type_ids (time),
/// lengths, labels; counts: samples, tokens.
///
/// Throws error that names the file and the line for what is no such line, an empty label or text, a label that `train`
/// does not have; usage_error for more labels than classes and a limit that leaves no room for text.
labelled_text_pair open_labelled_text(const std::string& where, const labelled_text_options& options);

/// Classes that are there, without tokenizing. Throws likewise.
std::int64_t labels_in(const std::string& where);

} // namespace penstock::apps
