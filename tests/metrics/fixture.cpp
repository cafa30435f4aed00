// Reads the files that make_fixtures.py wrote.
#include "tests/metrics/fixture.hpp"

#include <fstream>

namespace penstock::apps::test {

nlohmann::json fixture(const std::string& name) {
  std::ifstream file(std::string(METRICS_FIXTURES) + "/" + name);
  return nlohmann::json::parse(file);
}

} // namespace penstock::apps::test
