// Compares answers, and walks through a data set in SQuAD's form.
#include "apps/metrics/squad.hpp"

#include "apps/metrics/characters.hpp"
#include "apps/text/unicode.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>

namespace penstock::apps {

namespace {

using nlohmann::json;

bool is_ascii_punctuation(char32_t code) {
  return (code >= U'!' && code <= U'/') || (code >= U':' && code <= U'@') || (code >= U'[' && code <= U'`') ||
         (code >= U'{' && code <= U'~');
}

// What a regular expression's \b in Python takes for a part of a word; the underscore has gone with the punctuation.
bool is_word_part(char32_t code) {
  return unicode::is_letter(code) || unicode::is_number(code);
}

// The normalised answer's words. An article is a whole word between other characters: that of "a-b" goes before the
// dash joins them, since the dash goes first.
std::vector<std::u32string> words_of(std::string_view answer) {
  auto text = lower_case(code_points(answer));
  std::erase_if(text, is_ascii_punctuation);
  std::vector<std::u32string> words(1);
  for (std::size_t at = 0; at < text.size();) {
    if (unicode::is_white_space(text[at], unicode::whose_space::python)) {
      words.emplace_back();
      ++at;
      continue;
    }
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = std::find_if_not(begin, text.end(), is_word_part);
    const std::u32string piece(begin, std::max(end, begin + 1));
    if (piece == U"a" || piece == U"an" || piece == U"the")
      words.emplace_back(); // an article leaves a blank
    else
      words.back() += piece;
    at += piece.size();
  }
  std::erase(words, U"");
  return words;
}

[[noreturn]] void refuse(const std::string& where, const std::string& found, const std::string& wanted) {
  throw usage_error(where + ": found " + found + ", wanted " + wanted);
}

json parse(std::string_view text, const std::string& file) {
  try {
    return json::parse(text);
  } catch (const json::exception& fault) {
    throw usage_error(file + ": it is no JSON: " + fault.what());
  }
}

// The member, which must be there and of that kind.
const json& member(const json& value, const char* key, json::value_t kind, const std::string& where) {
  const auto* const wanted = kind == json::value_t::array ? "a list" : "text";
  if (!value.is_object() || !value.contains(key)) refuse(where, "no \"" + std::string(key) + "\"", wanted);
  const auto& found = value.at(key);
  if (found.type() != kind) refuse(where, std::string("\"") + key + "\" that is " + found.type_name(), wanted);
  return found;
}

std::string place(const std::string& above, const char* what, std::size_t index) {
  return above + ": " + what + " " + std::to_string(index + 1);
}

// Calls `judge(id, answers)` for every question.
void for_each_question(const json& data, const std::string& file,
                       const std::function<void(const std::string&, const std::vector<std::string>&)>& judge) {
  constexpr auto list = json::value_t::array;
  const auto& articles = member(data, "data", list, file);
  for (std::size_t a = 0; a < articles.size(); ++a) {
    const auto article = place(file, "article", a);
    const auto& paragraphs = member(articles[a], "paragraphs", list, article);
    for (std::size_t p = 0; p < paragraphs.size(); ++p) {
      const auto paragraph = place(article, "paragraph", p);
      const auto& questions = member(paragraphs[p], "qas", list, paragraph);
      for (std::size_t q = 0; q < questions.size(); ++q) {
        const auto question = place(paragraph, "question", q);
        const auto& id = member(questions[q], "id", json::value_t::string, question);
        std::vector<std::string> answers;
        for (const auto& answer : member(questions[q], "answers", list, question))
          answers.push_back(member(answer, "text", json::value_t::string, question + ": an answer"));
        if (answers.empty()) refuse(question, "no answers", "at least one, as in SQuAD 1.1");
        judge(id.get<std::string>(), answers);
      }
    }
  }
}

double best(const std::string& answer, const std::vector<std::string>& truths,
            double (*measure)(std::string_view, std::string_view)) {
  double most = 0;
  for (const auto& truth : truths)
    most = std::max(most, measure(answer, truth));
  return most;
}

} // namespace

std::string normalised_answer(std::string_view answer) {
  std::string text;
  for (const auto& word : words_of(answer))
    text += (text.empty() ? "" : " ") + utf8(word);
  return text;
}

double exact_match(std::string_view answer, std::string_view truth) {
  return words_of(answer) == words_of(truth) ? 1 : 0;
}

double answer_f1(std::string_view answer, std::string_view truth) {
  const auto said = words_of(answer);
  const auto right = words_of(truth);
  std::map<std::u32string_view, std::ptrdiff_t> left;
  for (const auto& word : right)
    ++left[word];
  const auto common = std::count_if(said.begin(), said.end(), [&](const auto& word) { return left[word]-- > 0; });
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(said.size());
  const double recall = static_cast<double>(common) / static_cast<double>(right.size());
  return 2 * precision * recall / (precision + recall);
}

squad_score score_squad(std::string_view predictions, const std::string& file, std::string_view data,
                        const std::string& data_file) {
  const auto answers = parse(predictions, file);
  if (!answers.is_object()) refuse(file, answers.type_name(), "an object {\"id\": \"answer\", ...}");
  for (const auto& [id, answer] : answers.items())
    if (!answer.is_string()) refuse(file + ": " + in_quotes(id), answer.type_name(), "an answer's text");
  squad_score score;
  for_each_question(parse(data, data_file), data_file,
                    [&](const std::string& id, const std::vector<std::string>& truths) {
                      ++score.questions;
                      const auto found = answers.find(id);
                      if (found == answers.end()) {
                        ++score.unanswered;
                        return;
                      }
                      const auto answer = found->get<std::string>();
                      score.exact += best(answer, truths, exact_match);
                      score.f1 += best(answer, truths, answer_f1);
                    });
  if (score.questions == 0) refuse(data_file, "no questions", "at least one");
  if (score.unanswered == score.questions)
    refuse(file, "an answer to none of the questions of " + data_file, "answers by their ids");
  score.exact *= 100.0 / static_cast<double>(score.questions);
  score.f1 *= 100.0 / static_cast<double>(score.questions);
  return score;
}

} // namespace penstock::apps
