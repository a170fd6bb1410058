// A small method for every gate, layout and hook, registered beside the program's own while these tests run.
#pragma once

#include "tests/methods/fake_gates.h"
#include "tests/methods/fake_hooks.h"
#include "tests/methods/fake_layouts.h"
#include "tests/methods/fake_samples.h"

namespace asr {

struct FakeCase {
  std::string name;
  MethodFactory make;
  bool plain = false;                                              // its adapter is one that PEFT can read
  std::vector<std::pair<std::string, std::string>> settings = {};  // of its runs
};

template <class T, class... Arguments>
MethodFactory fake_factory(Arguments... arguments) {
  return [=]() -> std::unique_ptr<Method> { return std::make_unique<T>(arguments...); };
}

inline const std::vector<FakeCase>& fake_gate_cases() {
  constexpr auto token = RouterReads::token, first = RouterReads::first, mean = RouterReads::mean;
  const GateLayout sum, given{GateKind::given, token, 0, 1};
  static const std::vector<FakeCase> cases = {
      {"fake-router-token", fake_factory<FakeGated>(fake_router(token))},
      {"fake-router-first", fake_factory<FakeGated>(fake_router(first))},
      {"fake-router-mean", fake_factory<FakeGated>(fake_router(mean, 2))},
      {"fake-router-top", fake_factory<FakeGated>(fake_router(token, 1))},
      {"fake-two-gates", fake_factory<FakeGated>(sum, fake_router(mean))},
      {"fake-given", fake_factory<FakeGiven>()},
      {"fake-given-by-sample", fake_factory<FakeGivenBySample>(given)},
      {"fake-mixture", fake_factory<FakeGivenBySample>(fake_router(mean, 0, 0.25))},
      {"fake-keys", fake_factory<FakeKeys>(), false, {{"fake-keys.sharpness", "20"}}},
      {"fake-fused", fake_factory<FakeFused>()},
  };
  return cases;
}

inline const std::vector<FakeCase>& fake_layout_cases() {
  using S = SitePart;
  static const std::vector<FakeCase> cases = {
      {"fake-slots", fake_factory<FakeSlots>(), true},
      {"fake-merged", fake_factory<FakeMerged>(), true},
      {"fake-frozen-parts", fake_factory<FakeFrozenParts>(false), true},
      {"fake-shared-a", fake_factory<FakeFrozenParts>(true), true},
      {"fake-full", fake_factory<FakeFull>()},
      {"fake-seven", fake_factory<FakeParts>(std::vector<S>{S::q, S::k, S::v, S::o, S::gate, S::up, S::down}), true},
      {"fake-vision", fake_factory<FakeParts>(std::vector<S>{S::vision, S::projector}), true},
      {"fake-group", fake_factory<FakeGroup>()},
  };
  return cases;
}

inline const std::vector<FakeCase>& fake_hook_cases() {
  static const std::vector<FakeCase> cases = {
      {"fake-hooks", fake_factory<FakeHooks>(), true, {{"weight_decay", "0"}}},
      {"fake-phases", fake_factory<FakePhases>(), true},
      {"fake-mixed-batches", fake_factory<FakeReplay>(FakeReplayBy::mixing), true},
      {"fake-replay-share", fake_factory<FakeReplay>(FakeReplayBy::share), true},
      {"fake-extra-batches", fake_factory<FakeReplay>(FakeReplayBy::extra_batches), true},
      {"fake-whole-step",
       fake_factory<FakeWholeStep>(),
       true,
       {{"geometry.batch", "global"}, {"gradient_accumulation_steps", "2"}, {"per_device_train_batch_size", "4"}}},
      {"fake-inserted", fake_factory<FakeInserted>()},
      {"fake-objective", fake_factory<FakeObjective>(), true},
  };
  return cases;
}

inline std::vector<FakeCase> fake_cases() {
  std::vector<FakeCase> out;
  for (const auto* list : {&fake_gate_cases(), &fake_layout_cases(), &fake_hook_cases()})
    out.insert(out.end(), list->begin(), list->end());
  return out;
}

inline void register_fakes() {
  static const bool done = [] {
    for (const auto& fake : fake_cases()) add_method(fake.name, "for tests", fake.make);
    return true;
  }();
  (void)done;
}

}  // namespace asr
