// Walks through the JSON, and finds each answer in its context.
#include "apps/data/squad_file.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <nlohmann/json.hpp>

#include <fstream>

namespace penstock::apps {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& where, const std::string& found, const std::string& wanted) {
  throw error(where + ": found " + found + ", wanted " + wanted);
}

const json& member(const json& value, const char* key, json::value_t kind, const std::string& where) {
  const auto* const wanted = kind == json::value_t::array ? "a list" : "text";
  if (!value.is_object() || !value.contains(key)) refuse(where, "no \"" + std::string(key) + "\"", wanted);
  const auto& found = value.at(key);
  if (found.type() != kind) refuse(where, std::string("\"") + key + "\" that is " + found.type_name(), wanted);
  return found;
}

std::string text_member(const json& value, const char* key, const std::string& where) {
  return member(value, key, json::value_t::string, where).get<std::string>();
}

const json& list_member(const json& value, const char* key, const std::string& where) {
  return member(value, key, json::value_t::array, where);
}

std::string place(const std::string& above, const char* what, std::size_t index) {
  return above + ": " + what + " " + std::to_string(index + 1);
}

// Byte of the character with that number; the size for the end, npos beyond. A parsed JSON text is UTF-8.
std::size_t byte_of(const std::string& text, std::uint64_t character) {
  constexpr unsigned char continues = 0x80;
  constexpr unsigned char mask = 0xc0;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & mask) == continues) continue;
    if (character == 0) return at;
    --character;
  }
  return character == 0 ? at : std::string::npos;
}

squad_answer answer_of(const json& value, const std::string& context, const std::string& where) {
  squad_answer answer{.text = text_member(value, "text", where)};
  if (!value.contains("answer_start") || !value.at("answer_start").is_number_unsigned())
    refuse(where, "no \"answer_start\"", "the number of its first character");
  const auto first = value.at("answer_start").get<std::uint64_t>();
  answer.first = byte_of(context, first);
  if (answer.text.empty()) refuse(where, "no text", "words of the context");
  if (answer.first == std::string::npos || context.compare(answer.first, answer.text.size(), answer.text) != 0)
    refuse(where, in_quotes(answer.text) + " at character " + std::to_string(first), "what the context has there");
  return answer;
}

void add_questions(squad_file& all, const json& paragraph, const std::string& where) {
  all.contexts.push_back(text_member(paragraph, "context", where));
  const auto& questions = list_member(paragraph, "qas", where);
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const auto at = place(where, "question", q);
    squad_question question{.id = text_member(questions[q], "id", at),
                            .text = text_member(questions[q], "question", at),
                            .context = all.contexts.size() - 1};
    const auto& answers = list_member(questions[q], "answers", at);
    for (std::size_t a = 0; a < answers.size(); ++a)
      question.answers.push_back(answer_of(answers[a], all.contexts.back(), place(at, "answer", a)));
    if (answers.empty()) refuse(at, "no answers", "at least one, as in SQuAD 1.1");
    all.questions.push_back(std::move(question));
  }
}

} // namespace

squad_file read_squad(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw error("cannot read " + file);
  json data;
  try {
    data = json::parse(in);
  } catch (const json::exception& fault) {
    throw error(file + ": it is no JSON: " + fault.what());
  }
  squad_file all;
  const auto& articles = list_member(data, "data", file);
  for (std::size_t a = 0; a < articles.size(); ++a) {
    const auto article = place(file, "article", a);
    const auto& paragraphs = list_member(articles[a], "paragraphs", article);
    for (std::size_t p = 0; p < paragraphs.size(); ++p)
      add_questions(all, paragraphs[p], place(article, "paragraph", p));
  }
  if (all.questions.empty()) refuse(file, "no questions", "at least one");
  return all;
}

} // namespace penstock::apps
