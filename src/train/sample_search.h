// Looks for a stream's training samples in bytes and in tensors: rows of their pictures, their questions as text and as
// token numbers; as they are, as numbers of any type, as fractions of 255 and inverted, and inside image files. One
// pass over the bytes serves any number of samples. What is otherwise compressed, encrypted or learnt by heart is not
// found.
#pragma once

#include <torch/types.h>

#include <map>

#include <string>
#include <unordered_map>
#include <vector>

#include "io/tokenizer.h"
#include "streams/stream.h"

namespace asr {

class SampleSearch {
 public:
  // Of the sample's texts and picture what is telling enough that a match is no accident.
  void add(const StreamSample& sample, const Tokenizer& tokenizer);

  // What of the training data is in there ("image of ID"); empty: nothing.
  std::string find(const std::string& bytes) const;
  std::string find(const torch::Tensor& tensor) const;

  int64_t samples() const { return samples_; }
  double bytes_a_sample() const;  // picture and texts, as they would be kept for replay

 private:
  struct Needle {
    std::string bytes;
    size_t window;  // where the part begins that is looked for first
    const char* what;
    size_t sample;  // of names_
  };
  struct Windows {                                      // all of one length
    std::unordered_multimap<uint64_t, size_t> needles;  // by the hash of their window
    std::vector<bool> seen;                             // a few bits of every hash, to be quick where there is none
  };
  void add_needle(std::string bytes, const char* what);
  std::string find(const char* data, size_t size) const;
  std::string find_numbers(const torch::Tensor& plain) const;       // the numbers of a tensor, as they may be coded
  std::string find_in_images(const char* data, size_t size) const;  // PNG and JPEG files among the bytes
  std::string find_in(const char* data, size_t size, size_t length, const Windows& windows) const;

  std::vector<Needle> needles_;
  std::vector<std::string> names_;
  std::map<size_t, Windows> by_length_;
  int64_t samples_ = 0;
  double bytes_ = 0;
};

}  // namespace asr
