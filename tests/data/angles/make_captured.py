"""What two systems really computed, cut to one head: python3 make_captured.py FOLDER (needs numpy, safetensors).

FOLDER holds a capture of SmolLM2-135M-Instruct (Apache-2.0; base 100000, head size 64) over 173 tokens: layer-00.safetensors
from transformers 5.24 and layer-00.llamacpp.safetensors from llama.cpp (llama-cpp-python 0.3.36).
"""
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

folder = sys.argv[1]
transformers = load_file(folder + "/layer-00.safetensors")
save_file({"cos": np.ascontiguousarray(transformers["cos"][0]), "sin": np.ascontiguousarray(transformers["sin"][0])},
          "transformers.safetensors")
llamacpp = load_file(folder + "/layer-00.llamacpp.safetensors")
save_file({n: np.ascontiguousarray(llamacpp[n][0, 1]) for n in ("k", "k_rot")}, "llamacpp.safetensors")
