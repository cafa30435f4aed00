// Sentences with their translations.
#pragma once

#include "apps/data/bucketed_text.hpp"
#include "apps/text/translation_tokens.hpp"

#include <memory>

namespace penstock::apps {

struct parallel_text_options {
  std::shared_ptr<const translation_tokens> tokens; ///< of both sides
  std::int64_t most_tokens =
      50; ///< of a sentence with BOS and EOS; pairs with a longer one are left out, as MLPerf does
  length_options lengths;
};

struct parallel_text_pair {
  std::unique_ptr<actors::dataset> train;
  std::unique_ptr<actors::dataset> test; ///< null where there is none
};

/// `where` is
/// - a folder with train.tsv and perhaps test.tsv, valid.tsv or dev.tsv (the first of them),
/// - a file, or two with a comma between that both end in ".tsv": for training, and for testing,
/// - two files with a comma between, of sources and of their translations line by line, or four, the last two for
///   testing.
/// A line of a TSV is a source and its translation with a tab between. Pairs with an empty side are left out; the
/// description counts them.
///
/// Inputs: source (source_time) from BOS to EOS, source_lengths, target_in (target_time) from BOS on, labels
/// (target_time) to EOS, in translation_tokens' ids, padded with PAD. Counts: samples, tokens (those of labels).
///
/// Throws error that names the file and the line for a line without a tab or with two, text that is no UTF-8, files of
/// different numbers of lines, and where no pair is left; usage_error for a limit that leaves no room for text.
parallel_text_pair open_parallel_text(const std::string& where, const parallel_text_options& options);

} // namespace penstock::apps
