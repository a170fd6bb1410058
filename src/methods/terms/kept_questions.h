// Questions of earlier stages, without their pictures and answers, each with what its picture was of where the stream
// knows that.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/sample_set.h"
#include "tensor/state.h"

namespace asr {

struct KeptQuestion {
  std::string text;
  std::string tag;  // object category or group of its picture; empty: not known
  int stage = 0;    // that it was learnt in
};

std::string picture_tag(const SampleInfo& info);

class KeptQuestions {
 public:
  const std::vector<KeptQuestion>& all() const { return all_; }

  // An equal share of `most` for each of `stage` stages, the one of `data` among them, drawn at random: at least one.
  void share_out(const SampleSet& data, int64_t most, int stage, uint64_t seed);
  // One of them by a key: with this tag where there are any and a tag is given, else of all.
  const KeptQuestion& draw(const std::string& tag, uint64_t key) const;

  void state(StateVisitor& visitor);

 private:
  void take(std::vector<KeptQuestion> list);
  void read(const std::string& json);

  std::vector<KeptQuestion> all_;
  std::map<std::string, std::vector<size_t>> by_tag_;
};

}  // namespace asr
