// The catalogue behind `rotary explain`. An id is never given to another meaning; a new one goes to the end.
#include <cctype>
#include <string>
#include <vector>

#include "rotary/warning.hpp"

namespace rotary {

const char* name(Severity severity) noexcept { return severity == Severity::note ? "note" : "warning"; }

const std::vector<WarningKind>& warning_kinds() {
  static const std::vector<WarningKind> kinds{
      {"RP001", Severity::warning, "scaling factor below 1",
       "A factor stretches wavelengths by that much, to reach further. Below 1 it shortens them, and the model sees "
       "positions "
       "faster than in training. Loaders accept it.",
       "Check whether its inverse was meant: some tools store 1 / factor."},
      {"RP002", Severity::warning, "YaRN factor does not match the lengths",
       "factor should be max_position_embeddings / original_max_position_embeddings. Where they differ the factor counts; "
       "the "
       "length only sizes tables.",
       "Compare with the model card. A config whose context was extended by hand often has one of the three numbers left "
       "over."},
      {"RP003", Severity::warning, "original length is missing",
       "The rule needs the length of the original training. transformers takes max_position_embeddings instead, which is "
       "the "
       "extended length: the range of pairs that the rule slows is then wrong.",
       "Add original_max_position_embeddings with the length of the first training."},
      {"RP004", Severity::warning, "beta_fast is smaller than beta_slow",
       "beta_fast is the number of turns from which a pair is kept, beta_slow that below which it is slowed. Swapped, fast "
       "pairs are slowed and slow ones kept.",
       "Swap them, unless the model was trained like this. Mistral's params.json calls them beta (fast) and alpha (slow)."},
      {"RP005", Severity::warning, "key that the rule does not read",
       "The scaling object has a key that this rule does not know. It has no effect here, nor in transformers.",
       "Check its spelling, and whether it belongs to another rule or another system (attn_factor is vLLM's)."},
      {"RP006", Severity::warning, "key of another family",
       "The file has a key by which other families change the rotation or the scores; the code of this family does not "
       "read it.",
       "Check model_type: a fork may have kept the name of the family that it changed."},
      {"RP007", Severity::note, "the model brings its own code",
       "auto_map names Python files that come with the weights. The file was read as the family of its model_type; the "
       "code "
       "may do something else.",
       "Compare rotated q and k with a capture: rotary verify."},
      {"RP008", Severity::warning, "unusually small base",
       "A base below 100 leaves almost no slow pairs; no known text model uses one. Swapped defaults (base 1, scale 10000) "
       "look "
       "like this.",
       "Check rope_theta."},
      {"RP009", Severity::note, "base not in the file",
       "The file does not say its base, and the default of the model's code was taken. Files that lost their base on "
       "conversion "
       "look the same.",
       "Compare with the original config.json; add the base to be safe."},
      {"RP010", Severity::note, "number taken from the class",
       "The file leaves out a number that decides the shape of the rotation, and the default of the model's class was "
       "taken.",
       "Nothing, if the file was saved by transformers, which leaves out defaults of nested configs."},
      {"RP011", Severity::warning, "type and rope_type name different rules",
       "Both are names of the same key. transformers reads rope_type.", "Remove one of them."},
      {"RP012", Severity::warning, "the two spellings disagree",
       "rope_scaling (old) and rope_parameters (new) are both given and differ. transformers 5 lets rope_scaling win; "
       "older "
       "versions read nothing else.",
       "Remove one of them."},
      {"RP013", Severity::warning, "odd rotary width",
       "head_dim * partial_rotary_factor is odd. transformers then turns one channel more, with the exponent of the odd "
       "width; "
       "other systems round otherwise.",
       "Give a factor whose product is even."},
      {"RP014", Severity::note, "frequencies follow the running length",
       "Dynamic NTK: beyond max_position_embeddings the base grows with every token. transformers recomputes it per call "
       "and "
       "keeps cached keys under their old base; vLLM freezes it at factor * max_position_embeddings for all lengths.",
       "Say which system is to be matched, and ask for the rotation of a length (--length)."},
      {"RP015", Severity::note, "two frequency lists, chosen by length",
       "LongRoPE: short_factor up to the original length, long_factor beyond. transformers chooses per call, vLLM and "
       "llama.cpp "
       "once by the longest length they admit, mlx-lm always takes the long list. Keys cached under one list do not fit "
       "the "
       "other.",
       "Say which system is to be matched, and ask for the rotation of a length (--length)."},
      {"RP016", Severity::warning, "truncate inside a layer type's parameters",
       "transformers looks truncate up beside the layer types and ignores it inside them, so that the range is rounded all "
       "the "
       "same.",
       "Check which range the model was trained with: rotary frequencies shows it."},
      {"RP017", Severity::warning, "partial_rotary_factor stands twice",
       "The value inside the rope parameters and that at the top level differ. transformers 5.24 takes the inner one, up "
       "to 5.16 "
       "the outer one, with a different rotary width.",
       "Remove one of them."},
      {"RP018", Severity::note, "explicit attention_factor",
       "transformers multiplies it into cos and sin. vLLM long read only attn_factor, mlx-lm reads only mscale, and "
       "converters to "
       "GGUF lose it: those systems derive another amplitude.",
       "Verify a capture of the system in use: rotary verify."},
      {"RP019", Severity::warning, "original context length is not in the GGUF",
       "llama.cpp then takes context_length, which is the extended length, for the range of YaRN or the choice of "
       "LongRoPE.",
       "Add rope.scaling.original_context_length."},
      {"RP020", Severity::warning, "key that llama.cpp does not read for this architecture",
       "The file has a rotation key which llama.cpp reads only for other architectures.",
       "Do not rely on it; compare with the original config.json: rotary compare."},
      {"RP021", Severity::note, "q and k of this GGUF are permuted",
       "llama.cpp pairs neighbours for this architecture, and the converter permuted the rows of q and k to match. The "
       "original "
       "checkpoint pairs halves: cached keys cannot be exchanged.",
       "Nothing, unless the converter did not permute: then the output is gibberish from the first token on."},
      {"RP022", Severity::note, "read as another family", "The caller named the family whose code the file is read with.",
       "Nothing, if the code is known to be the same."},
      {"RP023", Severity::warning, "value in another form",
       "A number, an object or a flag is written as something else: in a string, or true as 4. Loaders that convert it go "
       "on; "
       "others fail.",
       "Write it as JSON number, object, or true or false."},
      {"RP024", Severity::note, "systems disagree about this family",
       "Implementations of this family differ in a way that changes the rotation; the text says how, and which one is "
       "followed.",
       "Verify a capture of the system in use: rotary verify."},
      {"RP025", Severity::warning, "value that only lenient reading takes",
       "The value breaks a rule of the format or of the family, and the reader was asked to do what loaders do.",
       "Mend the file."},
      {"RP026", Severity::note, "part left out",
       "A part of a composite file (a tower, a codec) is of a family that is not in the table, or stands beside the text "
       "model in a params.json. The other parts were read; this one does not appear among them.",
       "Nothing, unless the rotation of that part is needed: read its object by itself, with the family whose code it is "
       "(--family)."},
      {"RP027", Severity::note, "weights not compared with the file",
       "The folder has weights, but none of the tensors that project to q and k could be recognised: their shapes were not "
       "compared with head counts and widths.",
       "Nothing; quantised and renamed weights look like this."},
      {"RP028", Severity::note, "weights have another number of layers",
       "The folder has weights of fewer layers than the file says, or of more. Further layers may be there to predict "
       "further "
       "tokens (DeepSeek-V3, GLM-4.5), and are not described.",
       "With fewer, or many more, the file belongs to another model, or the weights are incomplete: check both."},
  };
  return kinds;
}

const WarningKind* find_warning_kind(const char* id) noexcept {
  const auto same = [](const char* known, const char* asked) {
    for (; *known != '\0' && *asked != '\0'; ++known, ++asked) {
      if (*known != std::toupper(static_cast<unsigned char>(*asked))) return false;
    }
    return *known == *asked;
  };
  for (const WarningKind& kind : warning_kinds()) {
    if (same(kind.id, id)) return &kind;
  }
  return nullptr;
}

}  // namespace rotary
