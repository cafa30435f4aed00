// What PyTorch computed in float64 for the recurrent layers (tests/kernels/fixtures/make_recurrent_fixtures.py).
#pragma once

#include "tests/kernels/backend_suite/fixture_file.hpp"

namespace penstock::testing {

/// The file beside its script; read once.
const std::vector<layer_fixture>& recurrent_fixtures();

} // namespace penstock::testing
