// Fixtures of this folder as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace penstock::apps::test {

nlohmann::json fixture(const std::string& name);

} // namespace penstock::apps::test
