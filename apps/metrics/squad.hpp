// SQuAD 1.1's exact match and F1 of predicted answers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::apps {

/// An answer as it is compared: lower case, without ASCII punctuation, without the words a, an and the, blanks
/// squeezed. As the official script of version 1.1, order of the steps included.
std::string normalised_answer(std::string_view answer);

/// 1 where the two are the same once normalised, else 0.
double exact_match(std::string_view answer, std::string_view truth);
/// The harmonic mean of precision and recall over the normalised words, each counted as often as both have it.
double answer_f1(std::string_view answer, std::string_view truth);

struct squad_score {
  double exact = 0; ///< percent
  double f1 = 0;    ///< percent
  std::size_t questions = 0;
  std::size_t unanswered = 0; ///< they count as wrong
};

/// Of predictions {"id": "answer", ...} against a data set in SQuAD 1.1's form, the best over each question's answers.
/// Both are JSON texts; `file` and `data_file` name them in messages. Throws usage_error that names the file and the
/// place (article, paragraph, question) of what is not of that form, a question without answers included.
squad_score score_squad(std::string_view predictions, const std::string& file, std::string_view data,
                        const std::string& data_file);

} // namespace penstock::apps
