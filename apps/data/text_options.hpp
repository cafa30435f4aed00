// How text becomes tokens and minibatches.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::apps {

struct text_options {
  std::string tokenizer;         ///< a file, or KIND:FILE (apps/text/open_tokenizer.hpp)
  std::int64_t most_tokens = 0;  ///< of a sequence; 0: the data set's own
  std::int64_t bucket_width = 0; ///< lengths that share minibatches; 0: the data set's own
  std::int64_t vocabulary = 0;   ///< words that are kept where no tokenizer is given; 0: 10,000
  std::int64_t batch_tokens = 0; ///< not 0: a minibatch has about so many tokens instead of --batch samples
};

} // namespace penstock::apps
