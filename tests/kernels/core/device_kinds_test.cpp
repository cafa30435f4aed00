// Kinds of devices by name: those that are built in, and those that are added.
#include "kernels/check.hpp"
#include "kernels/device_kinds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

std::string library_of(const char* kind, bool reference) {
  const auto [library, instruction_set] = compute_library_of(kind, reference);
  return library;
}

TEST(DeviceKinds, TheCpuIsOneWithItsLibrary) {
  EXPECT_EQ(to_string(open_device("cpu", 0)->id()), "cpu:0");
  const auto [usual, instruction_set] = compute_library();
  EXPECT_EQ(library_of("cpu", false), usual);
  EXPECT_EQ(library_of("cpu", true), "reference loops");
}

TEST(DeviceKinds, AnUnknownNameIsRefusedWithTheNearest) {
  EXPECT_THAT([] { open_device("cpi", 0); }, ::testing::ThrowsMessage<usage_error>(::testing::HasSubstr(
                                                 "'cpi' (did you mean 'cpu'?); there are cpu, cuda")));
}

TEST(DeviceKinds, OneThatIsAddedIsOpenedByItsNameAndOneOfThatNameTakesItsPlace) {
  int opened = 0;
  for (const int step : {1, 10}) {
    add_device_kind({"counted",
                     [&opened, step](int index) {
                       opened += step;
                       return open_device(device_id{device_kind::cpu, index});
                     },
                     "loops of a test"});
    open_device("counted", 0);
  }
  EXPECT_EQ(opened, 11);
  EXPECT_EQ(library_of("counted", false), "loops of a test");
}

} // namespace
} // namespace penstock
