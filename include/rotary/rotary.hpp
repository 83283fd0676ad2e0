// Everything: rotary position embeddings and the attention around them.
#pragma once

#include "rotary/angles.hpp"
#include "rotary/attention.hpp"
#include "rotary/dtype.hpp"
#include "rotary/error.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/isa.hpp"
#include "rotary/model.hpp"
#include "rotary/parallel.hpp"
#include "rotary/position_axes.hpp"
#include "rotary/positions.hpp"
#include "rotary/precision.hpp"
#include "rotary/rotate.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"
#include "rotary/tensor_file.hpp"
#include "rotary/version.hpp"
