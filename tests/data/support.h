// Small models and samples for the tests of this folder.
#pragma once

#include "data/encoded_samples.h"
#include "data/packed_samples.h"
#include "tests/support/files.h"
#include "tests/support/small_model.h"

namespace asr {

inline std::unique_ptr<Backbone> packing_model() {
  return load_backbone(ASR_SOURCE_DIR "/tests/fixtures/models/llava");
}

inline std::unique_ptr<Stream> small_world(int64_t train = 40) {
  StreamOptions options;
  options.train = train;
  options.val = 4;
  options.image_size = 32;
  return make_stream(options);
}

// Every word with an 'o' is functional; the posterior counts the words.
struct CountingAnalyser final : QuestionAnalyser {
  std::vector<bool> functional(const std::string& question, const std::vector<Token>& tokens) const override {
    std::vector<bool> out;
    for (const auto& token : tokens)
      out.push_back(question.substr(token.begin, token.end - token.begin).find('o') != std::string::npos);
    return out;
  }
  torch::Tensor posterior(const std::vector<std::string>& questions, const std::vector<std::string>&) const override {
    auto out = torch::zeros({static_cast<int64_t>(questions.size()), 3});
    for (size_t i = 0; i < questions.size(); ++i)
      out[static_cast<int64_t>(i)][std::count(questions[i].begin(), questions[i].end(), ' ') % 3] = 1;
    return out;
  }
};

inline std::shared_ptr<SampleSet> encoded_world(const Stream& stream, const Backbone& model,
                                                const QuestionAnalyser* analyser, size_t task = 0) {
  const auto sample = [&stream, task](int64_t i) { return stream.sample(task, DataSplit::train, i); };
  auto out =
      std::make_shared<EncodedSamples>(encode_samples(stream.size(task, DataSplit::train), sample, model, analyser));
  out->name = stream.tasks()[task].name;
  return out;
}

inline std::shared_ptr<SampleSet> packed_world(const Stream& stream, const Backbone& model,
                                               const QuestionAnalyser* analyser, size_t task = 0) {
  PictureSource source;
  source.picture = [&stream, task](int64_t i) {
    auto s = stream.sample(task, DataSplit::train, i);
    return Image8{s.height, s.width, std::move(s.pixels)};
  };
  auto out = packed_samples(
      stream.size(task, DataSplit::train), [&](int64_t i) { return stream.text(task, DataSplit::train, i); }, source,
      model, analyser);
  out->name = stream.tasks()[task].name;
  if (analyser) out->posterior = question_posteriors(out->infos(), *analyser);
  return out;
}

inline void expect_same_input(const Batch& a, const Batch& b) {
  for (auto field : {&Batch::pixels, &Batch::features, &Batch::ids, &Batch::mask, &Batch::labels, &Batch::question,
                     &Batch::functional}) {
    ASSERT_EQ((a.*field).defined(), (b.*field).defined());
    if ((a.*field).defined()) {
      EXPECT_TRUE((a.*field).equal(b.*field));
    }
  }
  EXPECT_EQ(a.question_tokens, b.question_tokens);
}

}  // namespace asr
