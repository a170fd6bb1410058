// Every case of independent expected values, on both implementations, in both precisions and on every device here.
// The repository's own small cases always run; those of the shared folder run where it is present.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "metrics/diagnostics.h"
#include "metrics/score_matrix.h"
#include "spectral/memory.h"
#include "tensor/tensor_io.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

using nlohmann::json;

struct SpectralCase {
  std::string name;
  json description;
  Safetensors inputs, expected;
  Options options;

  explicit SpectralCase(const std::string& folder) : name(std::filesystem::path(folder).filename()) {
    description = json::parse(read_text(folder + "/case.json"));
    inputs = read_safetensors(folder + "/inputs.safetensors");
    expected = read_safetensors(folder + "/expected.safetensors");
    options = resolve_options("sound", manifest_assignments({{"spectral", description["options"]}}, folder));
  }
  torch::Tensor in(const std::string& tensor) const { return load_tensor(inputs, tensor); }
  torch::Tensor out(const std::string& tensor) const { return load_tensor(expected, tensor); }
  Vector vector(const std::string& tensor) const {
    const auto t = in(tensor).to(at::kDouble).contiguous();
    return {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()};
  }
  double scalar(const std::string& key) const { return description["scalars"][key].get<double>(); }
  // The repository's own gradients are central differences, good to about 1e-9 themselves.
  double gradient_tolerance(double wanted) const {
    return inputs.path.find("/fixtures/") != std::string::npos ? std::max(wanted, 1e-8) : wanted;
  }
  PrototypeTensors memory() const {
    return {in("memory.skill"), in("memory.mean"), in("memory.variance"), in("memory.angular"), {}};
  }
};

std::vector<std::string> case_folders() {
  std::vector<std::string> out;
  for (const auto& root : {std::string(ASR_SOURCE_DIR) + "/tests/fixtures/cases", shared_data() + "/cases"}) {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(root, missing))
      if (entry.is_directory()) out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Cases, OursAreThereAndThoseOfTheSharedDataTooWherePresent) {
  const auto folders = case_folders();
  const auto below = [&](const std::string& root) {
    return std::count_if(folders.begin(), folders.end(), [&](const auto& f) { return f.rfind(root, 0) == 0; });
  };
  EXPECT_GE(below(ASR_SOURCE_DIR "/tests/fixtures/cases"), 8);
  if (!std::filesystem::exists(shared_data() + "/cases"))
    GTEST_SKIP() << "no " << shared_data()
                 << "/cases: only the repository's own cases run; set ASR_TEST_DATA to run the others";
  EXPECT_GT(below(shared_data() + "/cases"), 0);
}

class Case : public testing::TestWithParam<std::string> {};

struct Precision {
  at::ScalarType type;
  double values, gradients;
};
const Precision kPrecisions[] = {{at::kDouble, 1e-9, 1e-9}, {at::kFloat, 2e-5, 1e-3}};

void check_forward(const SpectralCase& c, Implementation implementation, const Precision& precision,
                   at::Device device) {
  const auto attention = c.in("attention").to(device, precision.type).detach().requires_grad_();
  const auto weights = token_weights(c.in("functional"), c.in("valid")).to(device);
  const SpectralEncoder encoder(attention.size(4), attention.size(5), c.options.spectral, implementation);
  const auto details = encoder.details(attention, weights);
  const double t = precision.values;
  expect_close(details.map, c.out("map"), t, "map");
  expect_close(details.power, c.out("power"), t, "power");
  EXPECT_TRUE(at::equal(details.peak.cpu(), c.out("peak"))) << "peak";
  expect_close(details.head_descriptor, c.out("head_descriptor"), t, "head_descriptor");
  expect_close(details.descriptor, c.out("descriptor"), t, "descriptor");
  expect_close(radial_part(details.descriptor, c.options.spectral), c.out("radial"), t, "radial");
  expect_close(angular_part(details.descriptor, c.options.spectral), c.out("angular"), t, "angular");

  const SpectralLoss loss(c.memory(), c.options, attention.options(), implementation);
  const auto terms = loss(encoder.descriptor(attention, weights), c.in("posterior").to(device));
  expect_close(terms.distance, c.out("distance"), t, "distance");
  expect_close(terms.divergence, c.out("divergence"), t, "divergence");
  expect_close(terms.weight, c.out("weight"), t, "weight");
  expect_close(terms.per_sample, c.out("loss_per_sample"), t, "loss_per_sample");
  expect_close(terms.loss.view({1}), c.out("loss"), t, "loss");
  expect_close(gradients(terms.loss, {attention})[0], c.out("grad_attention"),
               c.gradient_tolerance(precision.gradients), "grad_attention");
}

TEST_P(Case, BothImplementationsAgreeWithTheExpectedValues) {
  const SpectralCase c(GetParam());
  for (const auto& device : devices())
    for (const auto& precision : kPrecisions)
      for (auto implementation : {Implementation::reference, Implementation::fused}) {
        if (implementation == Implementation::fused && device.is_cuda()) continue;
        SCOPED_TRACE(cat(c.name, " ", enum_name(implementation), " ", at::toString(precision.type), " ", device.str()));
        check_forward(c, implementation, precision, device);
      }
}

TEST_P(Case, FrequencyPlane) {
  const SpectralCase c(GetParam());
  const auto shape = c.out("radius").sizes().vec();
  const auto plane = make_frequency_plane(shape[0], shape[1], c.options.spectral);
  expect_close(torch::tensor(plane.radius, at::kDouble).view(shape), c.out("radius"), 1e-12, "radius");
  expect_close(torch::tensor(plane.angle, at::kDouble).view(shape), c.out("angle"), 1e-12, "angle");
  EXPECT_TRUE(at::equal(torch::tensor(plane.radial_bin, at::kLong).view(shape), c.out("radial_bin")));
  EXPECT_TRUE(at::equal(torch::tensor(plane.angular_bin, at::kLong).view(shape), c.out("angular_bin")));
  EXPECT_NEAR(coarsening_norm(plane.radial_bin, plane.angular_bin), c.scalar("kappa_C"), 1e-12);
}

TEST_P(Case, GeometryLoss) {
  const SpectralCase c(GetParam());
  for (const auto& device : devices())
    for (const auto& precision : kPrecisions) {
      const auto as = [&](const char* name) { return c.in(name).to(device, precision.type).detach(); };
      const auto image = as("geo.image").requires_grad_(), text = as("geo.text").requires_grad_();
      const auto loss = geometry_loss(image, text, as("geo.image_ref"), as("geo.text_ref"));
      const auto grads = gradients(loss, {image, text});
      expect_close(loss.view({1}), c.out("geo"), precision.values, "geo");
      expect_close(grads[0], c.out("grad_geo_image"), c.gradient_tolerance(precision.gradients), "grad_geo_image");
      expect_close(grads[1], c.out("grad_geo_text"), c.gradient_tolerance(precision.gradients), "grad_geo_text");
    }
}

TEST_P(Case, MemoryAfterTwoStages) {
  const SpectralCase c(GetParam());
  PrototypeMemory memory;
  memory.options = c.options;
  for (int stage = 0; stage < 2; ++stage) {
    const std::string prefix = cat("stage", stage, "."), after = cat("memory_after", stage, ".");
    StageMoments moments(c.options);
    moments.add(c.in(prefix + "descriptor"), c.in(prefix + "angular"), c.in(prefix + "posterior"), {}, stage);
    memory.update(moments);
    const auto found = memory.tensors();
    ASSERT_TRUE(at::equal(found.skill, c.out(after + "skill")));
    expect_close(found.mean, c.out(after + "mean"), 1e-12, after + "mean");
    expect_close(found.variance, c.out(after + "variance"), 1e-9, after + "variance");
    expect_close(found.angular, c.out(after + "angular"), 1e-12, after + "angular");
  }
}

TEST_P(Case, ScoresOfTheMatrix) {
  const SpectralCase c(GetParam());
  const auto scores = c.in("score").to(at::kDouble);
  ScoreMatrix matrix;
  for (int64_t a = 0; a < scores.size(0); ++a) {
    matrix.tasks.push_back(cat("task", a));
    matrix.rows.emplace_back();
    for (int64_t b = 0; b < scores.size(1); ++b)
      matrix.rows.back().push_back(b <= a ? scores[a][b].item<double>() : NAN);
  }
  const auto found = score(matrix);
  const auto expected = c.out("metrics").to(at::kDouble);
  const double values[] = {found.ap, found.af_paper, found.last, found.avg};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i].item<double>(), 1e-12) << i;
}

TEST_P(Case, DriftAndBound) {
  const SpectralCase c(GetParam());
  const auto near = [&](double found, double expected, const char* what) {
    EXPECT_NEAR(found, expected, 1e-9 * std::max(1.0, std::abs(expected))) << what;
  };
  const auto r0 = c.vector("drift.radial0"), r1 = c.vector("drift.radial1"), d0 = c.vector("drift.angular0"),
             d1 = c.vector("drift.angular1");
  near(jensen_shannon(r0, r1), c.scalar("jsd_r"), "jsd_r");
  near(jensen_shannon(d0, d1), c.scalar("jsd_d"), "jsd_d");
  near(spectral_drift(r0, r1, d0, d1), c.scalar("spec_drift_eta1"), "spec_drift");
  near(high_frequency_loss(r0, r1), c.scalar("high_freq_loss_rho0_0p5"), "high_freq_loss");
  const Gaussian ideal{c.vector("w2.mean_m"), c.vector("w2.variance_m")},
      now{c.vector("w2.mean_t"), c.vector("w2.variance_t")},
      stored{c.vector("w2.mean_hat"), c.vector("w2.variance_hat")};
  near(gaussian_drift(now, ideal), c.scalar("w2_drift"), "w2_drift");
  const auto error = memory_error(ideal, stored);
  const auto bound = empirical_bound(now, ideal, stored);
  const auto& e = c.description["scalars"]["mem_err_a_b_rho_xi"];
  near(error.a, e[0], "a");
  near(error.b, e[1], "b");
  near(error.rho, e[2], "rho");
  near(error.xi, e[3], "xi");
  near(bound.left, c.description["scalars"]["empirical_lhs_rhs"][0], "left");
  near(bound.right, c.description["scalars"]["empirical_lhs_rhs"][1], "right");
}

std::string case_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).filename();
  std::replace_if(
      name.begin(), name.end(), [](char ch) { return !std::isalnum(static_cast<unsigned char>(ch)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Case, testing::ValuesIn(case_folders()), case_name);

}  // namespace
}  // namespace asr
