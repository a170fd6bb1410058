#include "methods/terms/by_site.h"

namespace asr {

void visit_by_site(StateVisitor& visitor, const std::string& what, TensorsBySite& tensors) {
  std::string names;
  for (const auto& [site, tensor] : tensors) names += site + "\n";
  visitor.text("sites", StateKind::statistics, names);
  for (size_t begin = 0; begin < names.size(); begin = names.find('\n', begin) + 1) {
    const auto site = names.substr(begin, names.find('\n', begin) - begin);
    visitor.tensor(what + "." + site, StateKind::statistics, tensors[site]);
  }
}

}  // namespace asr
