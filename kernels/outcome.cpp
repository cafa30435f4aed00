// One fetch for all.
#include "kernels/outcome.hpp"

#include <iterator>
#include <utility>

namespace penstock {

void outcome::expect(tensor scalars, std::function<void(const tensor&)> judge) {
  scalars_.push_back(std::move(scalars));
  judges_.push_back(std::move(judge));
}

void outcome::then(std::function<void()> judge) {
  expect({}, [judge = std::move(judge)](const tensor&) { judge(); });
}

void outcome::adopt(outcome& earlier) {
  scalars_.insert(scalars_.begin(), std::make_move_iterator(earlier.scalars_.begin()),
                  std::make_move_iterator(earlier.scalars_.end()));
  judges_.insert(judges_.begin(), std::make_move_iterator(earlier.judges_.begin()),
                 std::make_move_iterator(earlier.judges_.end()));
  earlier = {};
}

void outcome::fetch(backend& ops) {
  std::vector<tensor> wanted;
  std::vector<tensor*> places;
  for (auto& t : scalars_)
    if (t) {
      places.push_back(&t);
      wanted.push_back(std::move(t));
    }
  if (wanted.empty()) return;
  auto there = ops.fetch(std::move(wanted));
  for (std::size_t i = 0; i < places.size(); ++i)
    *places[i] = std::move(there[i]);
}

void outcome::settle() {
  const auto scalars = std::exchange(scalars_, {});
  const auto judges = std::exchange(judges_, {});
  for (std::size_t i = 0; i < judges.size(); ++i)
    judges[i](scalars[i]);
}

void run_and_settle(stream& on, const std::function<void(backend&, outcome&)>& work) {
  outcome tells;
  on.run([&](backend& ops) {
    work(ops, tells);
    tells.fetch(ops);
  });
  tells.settle();
}

} // namespace penstock
