// A batch with what is known of its samples: models read `input` alone, methods and objectives the rest.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backbones/backbone.h"

namespace asr {

struct SampleInfo {
  std::string id, question, answer;
  std::string skill;                    // the true one where the stream knows it; only the mode `oracle` may use it
  std::vector<std::string> references;  // every right answer
  std::string type = {};                // of the question, where the stream knows it
  std::string part = {};                // head, medium, tail or unseen in a long-tailed stream
  std::string group = {};               // of a task whose rows are trained in groups (VQACL); else empty
  int stage = 0;                        // in which it is, or was, learnt; 0: not known
  std::string category = {};            // of the object that the picture shows, where the stream knows it
  bool has_picture = true;              // false: the question is about a text alone
};

// What each different right answer is worth by VQA's rule: a third for everybody who gave it, at most 1. One reference
// is worth 1. In the order of their first appearance.
std::vector<std::pair<std::string, double>> answer_scores(const SampleInfo& info);

// Pictures of a batch as the stream has them, before augmentation and any model's processor, by row; while the set they
// are of lives. Those of built-in models have the model's size.
struct BatchPictures {
  std::function<std::string(int64_t)> key = {};  // two rows of one key have one picture, in other batches too
  std::function<Image8(int64_t)> read = {};      // without pixels where there is none

  explicit operator bool() const { return static_cast<bool>(read); }
};

// Any tensor may be undefined.
struct SampleBatch {
  Batch input;
  std::vector<SampleInfo> info;                         // of every row
  torch::Tensor posterior = {};                         // [B, skills]
  torch::Tensor reference_image = {};                   // [B, width]: embeddings of the base model
  torch::Tensor reference_text = {};                    // [B, width]
  std::optional<uint64_t> augmentation = std::nullopt;  // the key under which its pictures were changed
  // Pixels [B, 3, H, W] in 0..1 of rows of a set that gives features instead; while the set lives. Empty: as in
  // `input`.
  std::function<torch::Tensor()> pixels = {};
  BatchPictures pictures = {};

  int64_t size() const { return input.size(); }
  torch::Tensor of_stage(int stage) const;  // [B] of 0 and 1, on the host: 0 where a sample is replayed from another
};

// Batch::same_picture by the pictures' keys; empty where these are not known.
std::vector<int64_t> same_pictures(const SampleBatch& batch);

// Two batches as one, padded to the longer. What only one of them has is left out.
Batch join(const Batch& a, const Batch& b);
SampleBatch join(const SampleBatch& a, const SampleBatch& b);
Batch padded(Batch batch, int64_t width);  // its text padded to this many tokens

}  // namespace asr
