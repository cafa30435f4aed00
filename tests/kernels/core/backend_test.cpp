// A backend's table of families: those of its device, and ones that nobody here has heard of.
#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/host_backend.hpp"
#include "kernels/ops/convolution_ops.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/linear_ops.hpp"
#include "kernels/ops/loss_ops.hpp"
#include "kernels/ops/normalisation_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"
#include "kernels/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

// As a later library might bring it.
class counting_ops {
public:
  static constexpr std::string_view family = "counting";
  virtual ~counting_ops() = default;
  virtual int next() = 0;
};

class counter final : public counting_ops {
public:
  explicit counter(int first) : next_(first) {}
  int next() override { return next_++; }

private:
  int next_;
};

class counting_backend final : public host_backend {
public:
  explicit counting_backend(std::shared_ptr<penstock::device> device)
      : host_backend(*device), device_(std::move(device)) {}
  void count_from(int first) { offer<counting_ops>(std::make_shared<counter>(first)); }

  format_ptr activation_format(const shape&) override { return nullptr; }
  tensor reorder(const tensor& x, format_ptr, memory_use) override { return x; }
  void reorder_rows(const tensor&, std::int64_t, const tensor&) override {}
  void fill(tensor&, float) override {}

private:
  std::shared_ptr<penstock::device> device_;
};

TEST(Backend, HandsOutTheFamiliesItWasGiven) {
  counting_backend ops(open_device({}));
  EXPECT_FALSE(ops.has<counting_ops>());
  ops.count_from(5);
  EXPECT_TRUE(ops.has<counting_ops>());
  EXPECT_EQ(ops.get<counting_ops>().next(), 5);
  EXPECT_EQ(ops.get<counting_ops>().next(), 6) << "one object, not one for each call";
  ops.count_from(10);
  EXPECT_EQ(ops.get<counting_ops>().next(), 10) << "a later one takes the place of the earlier";
}

TEST(Backend, NamesTheDeviceAndTheFamilyThatItHasNot) {
  counting_backend ops(open_device({}));
  EXPECT_THAT([&] { ops.get<counting_ops>(); }, ::testing::ThrowsMessage<error>("[device] cpu:0 has no counting"));
  EXPECT_THAT([&] { ops.get<convolution_ops>(); },
              ::testing::ThrowsMessage<error>("[device] cpu:0 has no convolution and pooling"));
}

TEST(Backend, OfTheProcessorsHasEveryFamilyEitherWay) {
  for (const bool reference : {false, true})
    open_device({})->create_stream({.reference = reference})->run([&](backend& ops) {
      EXPECT_TRUE(ops.has<elementwise_ops>() && ops.has<linear_ops>() && ops.has<convolution_ops>() &&
                  ops.has<normalisation_ops>() && ops.has<loss_ops>() && ops.has<optimizer_ops>());
      EXPECT_FALSE(ops.has<counting_ops>());
    });
}

} // namespace
} // namespace penstock
