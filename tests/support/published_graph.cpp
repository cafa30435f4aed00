// Reads them from the tests' own folder.
#include "tests/support/published_graph.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace penstock::test {

std::filesystem::path published_graph_file(const std::string& name) {
  return std::filesystem::path(PENSTOCK_PUBLISHED_GRAPHS) / (name + ".txt");
}

std::string published_graph(const std::string& name) {
  const auto path = published_graph_file(name);
  const std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace penstock::test
