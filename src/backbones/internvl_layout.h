// The two layouts of InternVL folders: that of transformers ("-hf", model_type internvl) and that of its authors
// (internvl_chat: InternVL2, 2.5 and 3 as OpenGVLab publishes them). The second is read as the first: its configuration
// is translated, its tensors are renamed, and those it packs together are taken apart.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backbones/model_folder.h"
#include "backbones/prompt.h"
#include "nn/weights.h"

namespace asr {

struct InternVlLayout {
  ModelFolder folder;  // with config.json in the form of transformers
  std::vector<std::pair<std::string, std::string>> renames;
  bool packed = false, packed_text = false;  // q, k and v in one tensor: the tower's, the language model's
  PromptTemplate prompt;
  int64_t tile = 0;         // sides in pixels; 0: those of the tower
  bool thumbnail = true;    // after the tiles of a picture that has several
  bool transposed = false;  // visual tokens of a tile come column by column
  bool own_head = false;    // lm_head where the file has one, the embedding only where it has none
  int64_t image_token = 0;  // where no tokenizer knows better
  std::string end_token;    // ends an answer, whatever generation_config.json says; empty: nothing more
};

InternVlLayout internvl_layout(const ModelFolder& folder);

// Takes what the layout packs apart. A tensor that is missing or misshapen is an error that names it.
void unpack_internvl(const InternVlLayout& layout, Weights& weights);

}  // namespace asr
