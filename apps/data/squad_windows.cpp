// Cuts contexts into windows and finds answers among their tokens.
#include "apps/data/squad_windows.hpp"

#include "apps/text/white_space.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::apps {

namespace {

struct token_range {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// The answer's own tokens among those of its words, which may have punctuation at their ends; else all of these.
token_range tightened(token_range words, std::span<const std::int64_t> ids, const token_ids& answer) {
  const auto begin = ids.begin() + words.first;
  const auto end = ids.begin() + words.last + 1;
  const auto found = answer.empty() ? end : std::search(begin, end, answer.begin(), answer.end());
  if (found == end) return words;
  const auto first = found - ids.begin();
  return {first, first + static_cast<std::int64_t>(answer.size()) - 1};
}

} // namespace

squad_windows::squad_windows(const squad_file& file, const tokenizer& tokens, const window_options& options)
    : file_(file) {
  check(options.stride > 0 && options.question_tokens > 0, "windows advance and hold a question");
  for (const auto& context : file.contexts)
    contexts_.push_back(tokenize(context, tokens));
  for (std::size_t number = 0; number < file.questions.size(); ++number)
    add_question(number, tokens, options);
}

squad_windows::tokenized_context squad_windows::tokenize(const std::string& context, const tokenizer& tokens) const {
  tokenized_context result;
  split_white_space(context, [&](std::string_view word) {
    const auto first = static_cast<std::size_t>(word.data() - context.data());
    for (const auto id : tokens.encode(word)) {
      result.ids.push_back(id);
      result.word_of.push_back(static_cast<std::int32_t>(result.words.size()));
    }
    result.words.push_back({first, first + word.size()});
  });
  return result;
}

void squad_windows::add_question(std::size_t number, const tokenizer& tokens, const window_options& options) {
  const auto& question = file_.questions[number];
  const auto& context = contexts_[question.context];
  auto asked = tokens.encode(question.text);
  if (static_cast<std::int64_t>(asked.size()) > options.question_tokens) {
    asked.resize(static_cast<std::size_t>(options.question_tokens));
    ++cut_questions_;
  }
  const auto head = tokens.wrapped(std::move(asked));
  const auto tail = tokens.special().end;
  const auto around = static_cast<std::int64_t>(head.size()) + (tail ? 1 : 0);
  const auto room = options.most_tokens - around;
  if (room < 1)
    throw usage_error("squad: found a limit of " + std::to_string(options.most_tokens) +
                      " tokens, wanted more than the " + std::to_string(around) +
                      " of a question and what is around it");
  // Tokens of the words in which the first answer lies.
  const auto& answer = question.answers.front();
  token_range right{-1, -1};
  for (std::size_t t = 0; t < context.ids.size(); ++t) {
    const auto& word = context.words[static_cast<std::size_t>(context.word_of[t])];
    if (word.end <= answer.first || word.first >= answer.first + answer.text.size()) continue;
    if (right.first < 0) right.first = static_cast<std::int64_t>(t);
    right.last = static_cast<std::int64_t>(t);
  }
  if (right.first >= 0) right = tightened(right, context.ids, tokens.encode(answer.text));
  const auto all = static_cast<std::int64_t>(context.ids.size());
  for (std::int64_t first = 0;; first += std::min(options.stride, room)) {
    const auto count = std::min(room, all - first);
    window one{.question = number,
               .context_first = static_cast<std::int64_t>(head.size()),
               .first_token = first,
               .context_tokens = count};
    if (right.first >= first && right.last < first + count) {
      one.start = right.first - first + one.context_first;
      one.end = right.last - first + one.context_first;
    }
    auto row = head;
    row.insert(row.end(), context.ids.begin() + first, context.ids.begin() + first + count);
    if (tail) row.push_back(*tail);
    rows_.add(row);
    windows_.push_back(one);
    if (first + count >= all) return;
  }
}

std::string squad_windows::answer(std::size_t number, std::int64_t start, std::int64_t end) const {
  const auto& one = windows_.at(number);
  const auto lies_in_it = [&](std::int64_t token) {
    return token >= one.context_first && token < one.context_first + one.context_tokens;
  };
  if (!lies_in_it(start) || !lies_in_it(end) || end < start) return "";
  const auto& question = file_.questions[one.question];
  const auto& context = contexts_[question.context];
  const auto word_at = [&](std::int64_t token) {
    const auto of_context = static_cast<std::size_t>(token - one.context_first + one.first_token);
    return context.words[static_cast<std::size_t>(context.word_of[of_context])];
  };
  const auto first = word_at(start).first;
  return file_.contexts[question.context].substr(first, word_at(end).end - first);
}

} // namespace penstock::apps
