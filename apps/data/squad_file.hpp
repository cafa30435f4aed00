// Questions, contexts and answers of a file in SQuAD 1.1's form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::apps {

struct squad_answer {
  std::string text;
  std::size_t first = 0; ///< byte of the context where it begins
};

struct squad_question {
  std::string id;
  std::string text;
  std::size_t context = 0;           ///< index in squad_file::contexts
  std::vector<squad_answer> answers; ///< at least one
};

struct squad_file {
  std::vector<std::string> contexts;
  std::vector<squad_question> questions;
};

/// Throws error that names the file and the place (article, paragraph, question) of what is not of that form: no JSON,
/// a missing member, a question without answers, an answer that does not stand where it says it does (counted in
/// characters).
squad_file read_squad(const std::string& file);

} // namespace penstock::apps
