// Naming groups by Gaussian moments, on samples whose answer is known.
#include "spectral/naming.h"

#include "base/random.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

struct Groups {
  std::vector<Vector> rows;
  std::vector<int64_t> of;
};

// Three groups of 40 in six dimensions with noise of deviation about 1; group g lies `apart` * g away in dimension 0
// once a strong noise that dimensions 0 and 1 share is taken out.
Groups groups(double apart) {
  Random random({1});
  Groups out;
  for (int64_t g = 0; g < 3; ++g)
    for (int i = 0; i < 40; ++i) {
      Vector row;
      for (int d = 0; d < 6; ++d) row.push_back(1.7 * (2 * random.uniform() - 1));
      const double shared = 40 * (random.uniform() - 0.5);
      row[1] = shared;
      row[0] += shared + apart * static_cast<double>(g);
      out.rows.push_back(row);
      out.of.push_back(10 * g);
    }
  return out;
}

TEST(NamingAccuracy, UsesTheSharedCovariance) {
  const auto far = groups(8);  // far beyond the noise, but not beyond what dimensions 0 and 1 share
  const auto named = naming_accuracy(far.rows, far.of);
  EXPECT_EQ(named.tested, 30);
  EXPECT_DOUBLE_EQ(named.chance, 1.0 / 3);
  EXPECT_GT(named.accuracy, 0.95);
  EXPECT_LT(naming_accuracy(far.rows, far.of, 6).accuracy, 0.8) << "dimension by dimension";
  EXPECT_LT(naming_accuracy(groups(0).rows, far.of).accuracy, 0.6);
}

TEST(NamingAccuracy, LeavesOutWhatIsTooSmall) {
  auto g = groups(8);
  g.of.back() = 77;  // a group of one
  EXPECT_EQ(naming_accuracy(g.rows, g.of).tested, 29);
  EXPECT_EQ(naming_accuracy({{1, 2}, {3, 4}}, {0, 1}).tested, 0);
  EXPECT_EQ(naming_accuracy({}, {}).tested, 0);
}

TEST(NamingAccuracy, ADimensionThatNeverVariesIsNoHarm) {
  auto g = groups(8);
  for (auto& row : g.rows) row[4] = 5;
  EXPECT_GT(naming_accuracy(g.rows, g.of).accuracy, 0.95);
}

}  // namespace
}  // namespace asr
