// Text for BERT's pretraining.
#pragma once

#include "actors/dataset.hpp"
#include "apps/text/tokenizer.hpp"

#include <memory>
#include <string>

namespace penstock::apps {

struct masked_text_options {
  std::shared_ptr<const tokenizer> tokens;
  std::int64_t most_tokens = 128; ///< of a sample
};

struct masked_text_pair {
  std::unique_ptr<actors::dataset> train;
  std::unique_ptr<actors::dataset> test; ///< null where there is none
};

/// `where` is a folder with train.txt and perhaps valid.txt or test.txt (the first of them), a file, or two with a
/// comma between. A line is a sentence, a blank line ends a document; a sentence that no sample holds is several.
/// Samples are pretraining_pairs, made anew in every epoch (in evaluations always the same). Inputs: input_ids,
/// token_type_ids (time; 1 in the second piece), lengths, masked_positions, masked_labels (predictions; behind the last
/// 0 and -100), next_sentence_label (1: from elsewhere); counts: samples, masked. A minibatch is padded to its longest
/// sample, rounded up to a multiple of 8.
///
/// Throws error that names the file and the line for what is no text, and for a file without text; usage_error for a
/// tokenizer without the tokens that this needs, and where pretraining_pairs does.
masked_text_pair open_masked_text(const std::string& where, const masked_text_options& options);

} // namespace penstock::apps
