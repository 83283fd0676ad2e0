// Frequencies of real models, worked out in float64 from the formulas of their rules without this library: pair, radians per
// position.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace rotary::exact {

using PairValue = std::pair<std::size_t, double>;

/// Llama-3.1-8B: base 5e5, width 128, llama3 8/1/4 over 8192. V1
inline const std::vector<PairValue> llama31{{0, 1},
                                            {1, 0.814617233857},
                                            {28, 3.21144599475e-3},
                                            {29, 2.1665707635e-3},
                                            {30, 1.37189356776e-3},
                                            {31, 8.5675141292e-4},
                                            {32, 5.24846160993e-4},
                                            {33, 3.12693750384e-4},
                                            {34, 1.78507812768e-4},
                                            {35, 9.55621235396e-5},
                                            {40, 3.42810219595e-5},
                                            {63, 3.06892598891e-7}};
/// Llama-3.2-1B: base 5e5, width 64, llama3 32/1/4 over 8192. V2
inline const std::vector<PairValue> llama32_1b{{13, 4.83942134572e-3}, {14, 3.21144599475e-3}, {15, 1.29054792821e-3},
                                               {16, 4.29556796559e-4}, {17, 9.70828780263e-5}, {18, 1.94616381848e-5},
                                               {31, 9.41830672543e-8}};
/// Qwen2.5 with the YaRN of its model card: base 1e6, width 128, factor 4 over 32768. V4
inline const std::vector<PairValue> qwen25_yarn{{22, 8.6596432336e-3},  {23, 6.9783058486e-3},  {24, 5.37532149079e-3},
                                                {31, 8.02959727545e-4}, {39, 6.49039432084e-5}, {40, 4.4456985251e-5},
                                                {41, 3.58253142559e-5}, {63, 3.10234440188e-7}};
/// DeepSeek-V3: base 1e4, width 64, YaRN 40 over 4096. V5
inline const std::vector<PairValue> deepseek_v3{{9, 7.49894209332e-2}, {10, 5.6234132519e-2},  {11, 3.90069265671e-2},
                                                {16, 5.5e-3},          {22, 1.77827941004e-4}, {23, 3.33380358041e-5},
                                                {24, 2.5e-5},          {31, 3.33380358041e-6}};
/// Kimi-K2: base 5e4, width 64, YaRN 32 over 4096, both betas 1. V6
inline const std::vector<PairValue> kimi_k2{
    {18, 2.274203757e-3}, {19, 1.621759908e-3}, {20, 3.614046774e-5}, {31, 8.764412912e-7}};
/// gpt-oss: base 150000, width 64, YaRN 32 over 4096, not truncated. V7
inline const std::vector<PairValue> gpt_oss{{8, 5.08132748155e-2},  {9, 3.17056961847e-2},  {12, 6.79495948973e-3},
                                            {16, 4.56483919223e-4}, {17, 1.29318701245e-4}, {18, 3.83088123738e-5},
                                            {31, 3.02351142812e-7}};
/// Yarn-Llama-2-7b-128k: base 1e4, width 128, YaRN 32 over 4096. V8
inline const std::vector<PairValue> yarn_llama2_128k{{20, 5.6234132519e-2},  {21, 4.68823302473e-2},
                                                     {31, 6.81487926061e-3}, {45, 1.05499774021e-4},
                                                     {46, 4.16725447551e-5}, {63, 3.60869370215e-6}};
/// Mistral 4: base 1e4, width 64, YaRN 128 over 8192. V9
inline const std::vector<PairValue> mistral4{
    {12, 3.16227766017e-2}, {18, 3.0482684815e-3}, {25, 5.85854851041e-6}, {31, 1.04181361888e-6}};
/// DeepSeek-V4's compressed layers: base 160000, width 64, YaRN 16 over 65536. V10
inline const std::vector<PairValue> deepseek_v4_compress{
    {15, 3.63553858362e-3}, {16, 2.265625e-3}, {20, 2.96977778262e-4}, {25, 5.37231267136e-6}, {31, 5.68052903691e-7}};
/// Hunyuan: base 1e4, width 128, alpha 1000. V13
inline const std::vector<PairValue> hunyuan_alpha_1000{{1, 0.776034363047}, {31, 3.85753187909e-4}, {63, 1.15478198469e-7}};
/// Gemma 3, layers that see all: base 1e6, width 256, linear 8. V16
inline const std::vector<PairValue> gemma3_global{{0, 0.125}, {1, 0.112210891556}, {64, 1.25e-4}, {127, 1.39246732499e-7}};

}  // namespace rotary::exact
