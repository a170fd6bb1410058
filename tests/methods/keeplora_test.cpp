// KeepLoRA: bases of constructed matrices, A outside the protected directions, the merge, a basis that covers the
// gradient of the finished stage, and a second stage on top of the first.
#include "data/probe.h"
#include "methods/terms/subspace.h"
#include "tests/methods/listening_objective.h"
#include "tests/methods/method_case.h"

namespace asr {
namespace {

torch::Tensor orthonormal(int64_t rows, int64_t width, int seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  const auto random = at::randn({width, rows}, generator, at::CPU(at::kDouble));
  return std::get<0>(at::linalg_qr(random)).t();
}

// U diag(values) V^T with known V.
torch::Tensor with_inputs(const torch::Tensor& inputs, const std::vector<double>& values, int64_t out) {
  return orthonormal(inputs.size(0), out, 3).t().mm(at::diag(torch::tensor(values, at::kDouble))).mm(inputs);
}

double apart_as_spaces(const torch::Tensor& a, const torch::Tensor& b) {
  const auto p = [](const torch::Tensor& basis) { return basis.to(at::kDouble).t().mm(basis.to(at::kDouble)); };
  return (p(a) - p(b)).abs().max().item<double>();
}

TEST(Subspace, LeadingInputsByEnergy) {
  const auto inputs = orthonormal(4, 9, 1);
  const auto weight = with_inputs(inputs, {4, 3, 2, 1}, 7);  // energies 16, 9, 4, 1 of 30
  // Below 0.9: 16/30 = 0.53, 25/30 = 0.83 count, 29/30 does not.
  const auto found = leading_inputs(weight, 0.9);
  ASSERT_EQ(found.size(0), 2);
  EXPECT_LT(apart_as_spaces(found, inputs.narrow(0, 0, 2)), 1e-6);
  EXPECT_EQ(leading_inputs(weight, 0.5).size(0), 0);
}

TEST(Subspace, PrincipalInputsOfWhatIsLeft) {
  const auto inputs = orthonormal(4, 9, 1);
  const auto gradient = with_inputs(inputs, {4, 3, 2, 1}, 7);
  const auto protected_rows = inputs.narrow(0, 0, 1).to(at::kFloat);
  const auto rest = without(gradient, protected_rows);
  EXPECT_LT(rest.mm(protected_rows.to(at::kDouble).t()).abs().max().item<double>(), 1e-6);
  EXPECT_LT(apart_as_spaces(principal_inputs(rest, 2), inputs.narrow(0, 1, 2)), 1e-5);
}

TEST(Subspace, NothingIsLeftWhereAllIsProtected) {
  const auto inputs = orthonormal(2, 9, 1);
  const auto gradient = with_inputs(inputs, {4, 3}, 7);
  const auto rest = without(gradient, inputs.narrow(0, 0, 1).to(at::kFloat));
  const auto found = principal_inputs(rest, 3, 1e-10 * 25);
  EXPECT_NEAR(found[0].norm().item<double>(), 1, 1e-6);
  EXPECT_EQ(found.narrow(0, 1, 2).abs().max().item<double>(), 0);
}

TEST(Subspace, GrowsUntilTheEnergyIsInside) {
  const auto inputs = orthonormal(4, 9, 1);
  const auto gradient = with_inputs(inputs, {4, 3, 2, 1}, 7);
  const auto basis = inputs.narrow(0, 1, 1).to(at::kFloat);  // 9 of 30 inside
  const auto grown = extended(basis, gradient, 0.95);        // 28.5 wanted: 16 and 4 more
  ASSERT_EQ(grown.size(0), 3);
  EXPECT_LT(apart_as_spaces(grown, inputs.narrow(0, 0, 3)), 1e-5);
  EXPECT_LT((grown.mm(grown.t()) - torch::eye(3)).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(extended(grown, gradient, 0.9).size(0), 3);  // already there
  EXPECT_LE(extended(grown, torch::randn({20, 9}, at::kDouble), 1).size(0), 9);
}

std::map<std::string, torch::Tensor> bases_of(Method& method) {
  struct Reader final : StateVisitor {
    std::map<std::string, torch::Tensor> found;
    void tensor(const std::string& name, StateKind, torch::Tensor& value) override { found[name] = value; }
    void text(const std::string&, StateKind, std::string&) override {}
  } reader;
  method.state(reader);
  return reader.found;
}

// The matrix without what it reads along orthonormal rows.
torch::Tensor outside_of(const torch::Tensor& matrix, const torch::Tensor& rows) {
  const auto m = matrix.to(at::kDouble), basis = rows.to(at::kDouble);
  return m - m.mm(basis.t()).mm(basis);
}

double energy_along(const torch::Tensor& matrix, const torch::Tensor& rows) {
  return matrix.mm(rows.to(at::kDouble).t()).square().sum().item<double>();
}

// The orthonormal rows along which a matrix reads most, as many as are wanted.
torch::Tensor leading_rows(const torch::Tensor& matrix, int64_t count) {
  return std::get<1>(at::linalg_eigh(matrix.t().mm(matrix))).t().flip(0).narrow(0, 0, count);
}

TEST(KeepLora, LearnsOutsideTheProtectedDirections) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  MethodCase fixture("keeplora", {{"keeplora.samples", "1", "test"}}, folder / "model");
  fixture.lay_out(1);
  const auto set = fixture.data();
  auto context = fixture.stage_context(1, set);
  fixture.method->begin_stage(context);
  fixture.trained = fixture.bank->trained();
  for (const auto& [name, tensor] : fixture.trained) EXPECT_NE(name.find("lora_B"), std::string::npos) << name;
  for (const auto& [name, basis] : bases_of(*fixture.method)) {
    const auto& expert = fixture.bank->at("stage-1", name.substr(6)).experts[0];
    EXPECT_EQ(expert.scale, 0.25);
    const auto gram = expert.a.mm(expert.a.t());  // rows of length 1 or, where nothing is left, 0
    EXPECT_LT((gram - at::diag(gram.diag().round())).abs().max().item<double>(), 1e-4) << name;
    EXPECT_NEAR(gram[0][0].item<double>(), 1, 1e-4) << name;
    EXPECT_LT(expert.a.mm(basis.t()).abs().max().item<double>(), 1e-4) << name;
    EXPECT_EQ(expert.b.abs().max().item<double>(), 0);
  }
  // No orthonormal rows outside the basis hold more of the gradient's rest G (I - M^T M) than A does.
  Probe start{*fixture.model, set, range(0, set.size()), fixture.alone};
  start.pass.slots = fixture.bank->training();
  start.batch = 8;
  const std::vector<AdapterSite> all(fixture.model->sites());
  const auto gradients = weight_gradients(start, all, int64_t(1) << 30);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto rest = outside_of(gradients[i], bases_of(*fixture.method).at("basis." + all[i].name));
    const auto& a = fixture.bank->at("stage-1", all[i].name).experts[0].a;
    const double most = energy_along(rest, leading_rows(rest, a.size(0)));
    EXPECT_NEAR(energy_along(rest, a), most, 1e-4 * most) << all[i].name;
  }
  // After the stage: the same function from merged weights, and a basis that covers the gradient there.
  {
    at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : fixture.trained) tensor.normal_(0, 0.5);
  }
  const auto batch = set.rows(range(0, 6));
  const auto loss = [&] {
    at::NoGradGuard no_grad;
    return fixture.objective->loss_of(*fixture.model, batch, Pass{fixture.bank->answering(), nullptr}).item<double>();
  };
  const double before = loss();
  const auto base = [&] {
    at::NoGradGuard no_grad;
    return fixture.objective->loss_of(*fixture.model, batch, Pass{0, nullptr});
  };
  const auto original = base();
  fixture.method->after_stage(context);
  EXPECT_TRUE(fixture.bank->is_merged("stage-1"));
  EXPECT_NEAR(loss(), before, 1e-4);
  EXPECT_GT(std::abs(before - original.item<double>()), 1e-3);
  EXPECT_TRUE(base().equal(original));
  Probe probe{*fixture.model, set, range(0, set.size()), fixture.alone};
  probe.pass.slots = fixture.bank->training();
  probe.batch = 8;
  std::vector<AdapterSite> sites;
  for (const auto& site : fixture.model->sites()) sites.push_back(site);
  const auto found = weight_gradients(probe, sites, int64_t(1) << 30);
  const auto bases = bases_of(*fixture.method);
  for (size_t i = 0; i < sites.size(); ++i) {
    const auto g = found[i].to(at::kDouble), m = bases.at("basis." + sites[i].name).to(at::kDouble);
    const double whole = g.square().sum().item<double>();
    const double inside = g.mm(m.t()).square().sum().item<double>();
    EXPECT_GE(inside, 0.99 * whole * (1 - 1e-5)) << sites[i].name;
    EXPECT_LT((m.mm(m.t()) - torch::eye(m.size(0), at::kDouble)).abs().max().item<double>(), 1e-5);
  }
}

// Of 12 samples a fifth, as by default, is two; evenly spaced, in batches of eight.
TEST(KeepLora, TakesGradientsOnItsShareOfAStage) {
  for (const auto& [share, wanted] : {std::pair<std::string, std::vector<int64_t>>{"", {0, 6}},
                                      {"0.34", {0, 3, 6, 9}},
                                      {"0.75", {0, 1, 2, 4, 5, 6, 8, 9, 10}}}) {
    MethodOptions options;
    if (!share.empty()) options.emplace_back("samples", share);
    OwnModelCase test("keeplora", options);
    const auto& heard = listen_to(test->objective);
    const auto set = test->data();
    test.begin(1, set);
    std::vector<std::string> expected, found;
    for (const int64_t row : wanted) expected.push_back(set.info(row).id);
    for (const auto& info : heard.learnt_from) found.push_back(info.id);
    EXPECT_EQ(found, expected) << share;
  }
}

// Gradients of whole weights of a base to which these products were added, of the mean loss of a batch.
std::map<std::string, torch::Tensor> gradients_with(const std::string& path,
                                                    const std::map<std::string, torch::Tensor>& added,
                                                    const SampleBatch& batch) {
  const auto model = load_backbone(path);
  const auto sites = model->sites();
  for (const auto& site : sites) {
    at::NoGradGuard no_grad;
    const auto product = added.find(site.name);
    if (product != added.end()) site.linear->weight = site.linear->weight + product->second;
    site.linear->weight.requires_grad_(true);
  }
  language_objective()->loss_of(*model, batch, Pass{0, nullptr}).backward();
  std::map<std::string, torch::Tensor> out;
  for (const auto& site : sites) out[site.name] = site.linear->weight.grad().to(at::kDouble);
  return out;
}

// The basis has grown and keeps what it had, and A is what the gradient reads outside of it: of the model with the
// first stage in its weights, on eight of the second's twelve samples.
TEST(KeepLora, ALaterStageLearnsOutsideWhatHasGrown) {
  OwnModelCase test("keeplora",
                    MethodOptions{{"samples", "0.667"}, {"weight_energy", "0.3"}, {"gradient_energy", "0.9"}});
  const auto first = test->data(0), second = test->data(1);
  test->lay_out(1);
  auto one = test->stage_context(1, first);
  test->method->begin_stage(one);
  const auto of_weights = bases_of(*test->method);
  std::map<std::string, torch::Tensor> products;
  {
    at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : test->bank->trained()) tensor.normal_(0, 2);
    for (const auto& site : test->bank->layout("stage-1").sites) {
      const auto& expert = test->bank->at("stage-1", site.site).experts[0];
      products[site.site] = expert.b.mm(expert.a) * 0.25;
    }
  }
  test->method->after_stage(one);
  const auto grown = bases_of(*test->method);
  test->lay_out(2);
  auto two = test->stage_context(2, second);
  test->method->begin_stage(two);
  const auto at_start = bases_of(*test->method);
  test->method->after_stage(two);
  const auto in_the_end = bases_of(*test->method);

  const auto path = test.folder / "model";
  const auto batch = second.rows({0, 1, 3, 4, 6, 7, 9, 10});
  const auto merged = gradients_with(path, products, batch), unmerged = gradients_with(path, {}, batch);
  int64_t added = 0;
  bool merging_matters = false;
  for (const auto& [site, gradient] : merged) {
    const auto key = "basis." + site;
    const auto m = grown.at(key);
    added += m.size(0) - of_weights.at(key).size(0);
    EXPECT_LT(outside_of(of_weights.at(key), m).norm().item<double>(), 1e-4) << site;
    EXPECT_TRUE(at_start.at(key).equal(m)) << site;
    EXPECT_LT(outside_of(m, in_the_end.at(key)).norm().item<double>(), 1e-4) << site;
    const auto& a = test->bank->at("stage-2", site).experts[0].a;
    EXPECT_LT(a.mm(m.t()).abs().max().item<double>(), 1e-4) << site;
    const auto rest = outside_of(gradient, m);
    const double most = energy_along(rest, leading_rows(rest, 4));
    EXPECT_NEAR(energy_along(rest, a), most, 1e-4 * most) << site;
    const auto elsewhere = leading_rows(outside_of(unmerged.at(site), m), 4);
    merging_matters = merging_matters || energy_along(rest, elsewhere) < 0.999 * most;
  }
  EXPECT_GT(added, 0);
  EXPECT_TRUE(merging_matters);
}

}  // namespace
}  // namespace asr
